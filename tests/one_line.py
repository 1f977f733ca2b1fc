"""A mistake of the user ends in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from capax.errors import InputError


@contextmanager
def one_line(said: str) -> Iterator[None]:
    """The block raises an `InputError` of one line in which `said` stands."""
    with pytest.raises(InputError) as caught:
        yield
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
