"""Text of any characters but halves of surrogate pairs, for Hypothesis: as `st.text()`, which
encodes a million characters first, two seconds for the first process of a fresh checkout."""

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=["Cs"])


def any_text(max_size: int | None = None) -> st.SearchStrategy[str]:
    return st.text(CHARACTERS, max_size=max_size)
