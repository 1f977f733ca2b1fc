"""The names of the views, and the state of one in its address.

This module imports nothing heavy: the server starts first and imports the rest while the page
opens.
"""

from urllib.parse import parse_qsl, urlsplit

from capax.errors import InputError, require

VIEWS = ("compile", "create", "laws", "bounds")
MAX_STATE = 16_384
"""Characters of an address: inputs of up to a thousand arbitrary bits fit."""


def state_of(address: str) -> tuple[str, dict[str, str]]:
    """The view and its state in an address such as `compile?formula=x1&T=50`, or a whole URL."""
    require(len(address) <= MAX_STATE, "address", f"at most {MAX_STATE} characters", len(address))
    try:
        parts = urlsplit(address)
        pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        raise InputError(f"address: not a view such as compile?T=50: {address!r}") from None
    view = parts.path.strip("/") or VIEWS[0]
    require(view in VIEWS, "view", f"one of {', '.join(VIEWS)}", view)
    return view, {name: text for name, text in pairs if name != "token"}
