"""A file is refused: one line, and no memory taken for what it only claims to hold."""

import resource

import pytest

from capax.audit.auditing import audit
from capax.errors import InputError

MEGABYTE = 2**20


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def refused(path, pattern):
    before = peak()
    with pytest.raises(InputError, match=pattern) as caught:
        audit(path)
    assert "\n" not in str(caught.value)
    assert peak() - before < 100 * MEGABYTE
