"""A compiled head with another temperature or one changed weight. It still has the form of a
construction, so the compiler's own functions certify it.

Scores divided by a temperature theta: the gaps a and D become a/theta and D/theta, and the weight
of [CLS] becomes omega^(1/theta). Values and read-out do not change.
"""

import dataclasses
from typing import Any

import numpy as np

from capax.compiler.construction.families import Construction
from capax.compiler.parts.readouts import Readout, ScalarReadout
from capax.errors import InputError, require

MAX_NAMED = 64
"""Most weights that the page lists; an MLP for many patterns has thousands."""


def at_temperature(construction: Construction, theta: float) -> Construction:
    """The head whose scores are divided by `theta`."""
    head = construction.selection
    warm = dataclasses.replace(
        head, a=head.a / theta, D=head.D / theta, omega=head.omega ** (1 / theta)
    )
    return dataclasses.replace(construction, selection=warm)


def named_weights(construction: Construction) -> dict[str, float]:
    """Values and read-out weights that are not 0, by names such as `W_V[x5]`."""
    support = construction.function.support
    found: dict[str, float] = {}
    for field, array in _arrays(construction.readout).items():
        for place, value in np.ndenumerate(array):
            if value:
                found[_name(field, place, support)] = float(value)
    return dict(list(found.items())[:MAX_NAMED])


def with_weight(construction: Construction, name: str, value: float) -> Construction:
    """The head with the weight `name` replaced. Raises `InputError` for an unknown name."""
    require(np.isfinite(value), "value", "a finite number", value)
    readout, support = construction.readout, construction.function.support
    for field, array in _arrays(readout).items():
        for place in np.ndindex(array.shape):
            if _name(field, place, support) == name:
                changed = array.copy()
                changed[place] = value
                number: Any = float(changed[()]) if array.ndim == 0 else changed
                other = dataclasses.replace(readout, **{field: number})
                return dataclasses.replace(construction, readout=other)
    known = ", ".join(list(named_weights(construction))[:6])
    raise InputError(f"weight: wanted one of {known}, ..., got {name!r}")


_SYMBOLS = {
    "nu": "W_V",
    "position_values": "W_V",
    "cls_value": "W_V[CLS]",
    "cls_values": "W_V[CLS]",
    "scale": "w",
}


def _arrays(readout: Readout) -> dict[str, np.ndarray]:
    names = (
        ("nu", "cls_value", "scale")
        if isinstance(readout, ScalarReadout)
        else ("position_values", "cls_values", "W_1", "b_1", "w_2", "b_2")
    )
    return {name: np.asarray(getattr(readout, name), np.float64) for name in names}


def _name(field: str, place: tuple[int, ...], support: tuple[int, ...]) -> str:
    """`W_V[x5]`, `W_V[x5,1]`, `W_V[CLS]`, `w`, `W_1[0,3]`, `b_2`."""
    symbol = _SYMBOLS.get(field, field)
    if field in ("nu", "position_values"):
        parts = [f"x{support[place[0]]}", *(map(str, place[1:]) if sum(place[1:]) else ())]
        return f"{symbol}[{','.join(parts)}]"
    if field == "cls_values":
        return symbol if not place[0] else f"W_V[CLS,{place[0]}]"
    return f"{symbol}[{','.join(map(str, place))}]" if place else symbol
