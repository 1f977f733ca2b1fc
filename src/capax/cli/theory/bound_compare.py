"""`capax bound --compare`: published bounds on one class, side by side."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capax.cli.speaking.output import emit
from capax.errors import require

if TYPE_CHECKING:
    from capax.capacity.network.field_bounds import FieldBound, HeadNorms
    from capax.terminal import Terminal

USED = ("W_QK_F", "W_QK_T_21", "W_QK_11", "v_2", "v_1", "B_X")
MAX_LAYERS, MAX_T, MAX_NORM = 1000, 10**15, 1e60
ONE_HOT = (
    "with one-hot positions d = T + 3, so bounds that are free of T but grow with ln d bring "
    "ln T back"
)


def show_compare(
    norms: str | None,
    T: int,
    m: int,
    d: int,
    k: int | None,
    layers: int,
    goal: dict[str, Any],
    plot: Path | None,
    dark: bool,
    json: bool,
) -> None:
    """Table, picture or JSON of all bounds; without norms, of the head that computes AND of 3."""
    require(1 <= layers <= MAX_LAYERS, "--layers", f"an integer in 1..{MAX_LAYERS}", layers)
    require(T <= MAX_T, "T", f"at most {MAX_T}", T)
    if plot is not None:
        from capax.figures.style import check_destination

        check_destination(plot)
    bounds, width, about = _bounds(norms, T, d, k, layers, goal["margin"])
    rows = [_row(b, m, goal["delta"], goal["target"]) for b in bounds]
    from capax.capacity.network.field_bounds import memorised

    best = min(rows, key=lambda row: (row["m_needed"] or math.inf, row["log10_value"]))
    payload: dict[str, Any] = {
        "about": about, "T": T, "m": m, "d": width, "layers": layers, "bounds": rows,
        "smallest": best["statement"], "target": goal["target"],
        "memorised_at_least": memorised(1, T + 1, k or width),
        "note": ONE_HOT,
    }  # fmt: skip
    if plot is not None:
        from capax.figures.style import save
        from capax.figures.theory.field_map import draw_field

        figure = draw_field(d, goal["target"], goal["delta"], dark=dark)
        payload["plot"] = str(save(figure, plot))
    emit(payload, json, lambda console: _show(console, payload))


def _bounds(
    text: str | None, T: int, d: int, k: int | None, layers: int, margin: float
) -> tuple[tuple["FieldBound", ...], int, str]:
    from capax.capacity.network.field_bounds import field_bounds
    from capax.figures.theory.field_map import conjunction_mlp, conjunction_norms

    require(d >= 1, "d", "a positive width", d)
    if layers > 1:
        return _deep(text, T, d, k, layers, margin), d, f"{layers} layers with these norms"
    if text is None:
        given = conjunction_norms(T)
        about = "the head that computes AND of three bits, on one-hot positions"
        return (*field_bounds(given, T), conjunction_mlp(T)), given.d, about
    return field_bounds(_head_norms(text, d, margin), T), d, "one head with these norms"


def _head_norms(text: str, d: int, margin: float) -> "HeadNorms":
    from capax.capacity.network.field_bounds import HeadNorms
    from capax.capacity.weights.plain_norms import parse_norms

    norms = parse_norms(text)
    for name in norms:
        require(name in USED, "--norms", f"names among {', '.join(USED)}", name)
    for name, value in norms.items():
        require(value <= MAX_NORM, "--norms", f"{name} at most {MAX_NORM:g}", value)
    for name in ("W_QK_F", "v_2"):
        require(name in norms, "--norms", "W_QK and v (a linear read-out)", sorted(norms))
    F, v = norms["W_QK_F"], norms["v_2"]
    return HeadNorms(
        W_QK_F=F,
        W_QK_T_21=norms.get("W_QK_T_21", math.sqrt(d) * F),
        W_QK_11=norms.get("W_QK_11", d * F),
        v_2=v,
        v_1=norms.get("v_1", math.sqrt(d) * v),
        d=d,
        B_X=norms.get("B_X", 1.0),
        margin=margin,
    )


def _deep(
    text: str | None, T: int, d: int, k: int | None, layers: int, margin: float
) -> tuple["FieldBound", ...]:
    from capax.capacity.network.field_bounds import deep_bounds
    from capax.capacity.network.paper_network import PaperLayer
    from capax.capacity.weights.plain_norms import matrix_from, parse_norms

    norms = parse_norms(text or "W_QK=1,W_V=1,W_C=1,w=1")
    needed = ("W_QK_F", "W_V_2", "W_C_2", "w_2")
    given = all(name in norms for name in needed)
    require(given, "--norms", "W_QK, W_V, W_C and w for several layers", sorted(norms))
    width = d if k is None else k
    shapes = {"W_QK": (d, d), "W_V": (width, d), "W_C": (d, width)}
    parts = {}
    for name, (columns, rows) in shapes.items():
        found = matrix_from(norms, name, columns, rows)
        entries = math.sqrt(columns * rows) * found.norm_F
        parts[name] = replace(found, norm_1_1=entries)
    layer = PaperLayer(parts["W_QK"], parts["W_V"], parts["W_C"], d=d, k=width)
    return deep_bounds(layer, layers, norms["w_2"], T, margin=margin)


def _row(bound: "FieldBound", m: int, delta: float, target: float) -> dict[str, Any]:
    content = bound.at(m, delta=delta, target=target).to_json()
    return {**content, "source": bound.source, "length_free": bound.length_free}


def _show(console: "Terminal", payload: dict[str, Any]) -> None:
    rows = []
    for row in payload["bounds"]:
        needed = row["m_needed"]
        value = row["value"]
        rows.append((
            row["statement"],
            "-" if value is None else f"{value:.4g}" + (" (vacuous)" if row["vacuous"] else ""),
            "no number" if needed is None else f"{needed:.4g}",
            "no" if row["length_free"] else "yes",
            row["status"],
            row["source"],
        ))  # fmt: skip
    head = ("bound", f"error at m = {payload['m']}", f"m for {payload['target']:g}", "grows with T",
            "status", "source")  # fmt: skip
    console.table(rows, head=head, title=f"{payload['about']}, T = {payload['T']}")
    console.print(f"fewest samples: {payload['smallest']}")
    count = payload["memorised_at_least"]
    console.print(f"memorises at least {count} examples (arXiv 2306.02010, any norms, one head)")
    console.print(f"note: {payload['note']}")
    if "plot" in payload:
        console.print(f"picture written to {payload['plot']}")
