"""A figure of the paper in one call, as a Matplotlib figure."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from capax.errors import require


def figure(
    number: int,
    *stores: str | Path,
    function: str | None = None,
    bits: str | None = None,
    T: int | None = None,
    panel: str | None = None,
    dark: bool = False,
) -> Figure:
    """Figure 1 (attention modules, for your function) or Figures 2 to 4 from stores.

    function, bits, T: Figure 1 only. stores: made by `capax sweep`; several give several curves in
    Figure 2. The result shows itself in a notebook; `capax.figures.style.save` writes it to a file.
    Raises `InputError` for an unknown number, or for options of another figure.

    Examples:
        >>> import capax
        >>> picture = capax.figure(1, function="x0 & x2", bits="10110")
        >>> len(picture.axes)
        4
    """
    require(number in (1, 2, 3, 4), "number", "1, 2, 3 or 4", number)
    own: dict[str, Any] = {"function": function, "bits": bits, "T": T}
    own = {name: value for name, value in own.items() if value is not None}
    if number == 1:
        from capax.figures.heads.attention_diagram import figure_1

        require(not stores, "stores", "no store: Figure 1 needs no results", stores)
        return figure_1(**own, dark=dark)[0]
    from capax.figures.paper import from_stores

    require(not own, next(iter(own), ""), "Figure 1 (other figures are drawn from a store)", number)
    make = {2: from_stores.figure_2, 3: from_stores.figure_3, 4: from_stores.figure_4}[number]
    return make([Path(store) for store in stores], dark, panel)[0]
