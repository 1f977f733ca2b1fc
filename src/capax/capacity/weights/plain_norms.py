"""A bound without a model: norms written by hand, `W_QK=3.2,W_V=1.5,W_V_21=4,w=1`.

Short names mean the norm in the bound: W_QK the Frobenius norm, W_V and W_C the spectral norm, w, c
and v the length. An index after the name chooses another: W_QK_2 or W_V_F or W_V_21.
Missing norms follow from ||W||_2 <= ||W||_F <= ||W||_{2,1} <= sqrt(columns) ||W||_F and
||W||_F <= sqrt(rank) ||W||_2; norms that contradict these inequalities belong to no matrix and are
refused, and so is a norm that the bound would not use. C_N, if given, is all that is known of Norm:
the finite form of softmax and recentred keys are not available then.
"""

import math
from difflib import get_close_matches
from typing import Any

from capax.capacity.bound import Bound
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.network.function_class import FunctionClass, check_norms
from capax.capacity.network.head_bounds import attention_head, linear_head, scalar_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.paper_network import PaperLayer, paper_network
from capax.capacity.network.paper_style import paper_style_cover
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.weighting import SOFTMAX, only_lipschitz
from capax.errors import InputError, require

# short name -> full name
SHORT = {"W_QK": "W_QK_F", "W_V": "W_V_2", "W_C": "W_C_2", "w": "w_2", "c": "c_2", "v": "v_2"}
KNOWN = (
    "W_QK_F", "W_QK_2", "W_QK_T_21", "W_QK_11",
    "W_V_2", "W_V_F", "W_V_21", "W_C_2", "W_C_F", "W_C_21",
    "w_2", "c_2", "v_2", "v_1", "B_X", "B_z", "r_X", "B_phi", "L_sigma", "C_N",
)  # fmt: skip


def parse_norms(text: str) -> dict[str, float]:
    """`name=value` pairs separated by commas to full names; raises a one-line InputError."""
    norms: dict[str, float] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, mark, value = (part.strip() for part in pair.partition("="))
        require(mark, "--norms", "name=value pairs separated by commas", pair)
        full = SHORT.get(name, name)
        if full not in KNOWN:
            near = get_close_matches(name, (*SHORT, *KNOWN), n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(SHORT)}"
            raise InputError(f"--norms: {name} is not a norm; {hint}")
        try:
            norms[full] = float(value)
        except ValueError:
            raise InputError(f"--norms: wanted a number for {name}, got {value!r}") from None
        check_norms(**{name: norms[full]})
    require(norms, "--norms", "at least one norm, e.g. W_QK=3.2,W_V=1.5,w=1", text)
    return norms


RADII = {"B_X", "B_z", "r_X", "C_N"}
HEAD = {"W_QK_F", "W_QK_T_21", "B_phi", *RADII}
VALUES = {"W_V_2", "W_V_F", "W_V_21", "W_C_2", "L_sigma"}
USED = {
    "a linear read-out v": HEAD | {"v_2"},
    "a read-out c": (HEAD | VALUES | {"c_2"}) - {"W_C_2"},
    "a read-out w": HEAD | VALUES | {"w_2"},
    "a head": HEAD | VALUES,
    "several layers": {"W_QK_F", "W_QK_2", "W_C_F", "W_C_21", "w_2", "B_X", "C_N", *VALUES},
}


def class_from_norms(
    norms: dict[str, float], *, d: int, k: int | None = None, layers: int = 1
) -> FunctionClass:
    """The class of these norms: `v` a linear read-out, `w` or `c` a scalar one, else a head.

    More than one layer: the paper's stack with equal layers (Theorem 4.7).
    """
    require(d >= 1, "d", "a positive width", d)
    require(layers >= 1, "layers", "at least one layer", layers)
    width = d if k is None else k
    require(width >= 1, "k", "a positive head width", width)
    require("W_QK_F" in norms, "--norms", "W_QK (the Frobenius norm)", sorted(norms))
    kind = _kind(norms, layers)
    _check_used(norms, kind)
    W_QK = matrix_from(norms, "W_QK", d, d, min(d, width))
    if kind == "several layers":
        return _stack(norms, W_QK, d, width, layers)
    known: dict[str, Any] = {
        "B_phi": norms.get("B_phi"), "inputs": _inputs(norms), "d": d, "rank": min(d, width)
    }  # fmt: skip
    if kind == "a linear read-out v":
        return linear_head(norms["W_QK_F"], norms["v_2"], **known)
    values = matrix_from(norms, "W_V", width, d)
    first = (norms["W_QK_F"], values.norm_2, values.norm_2_1)
    known |= {"k": width, "W_V_F": values.norm_F}
    L_sigma, W_C = norms.get("L_sigma", 1.0), norms.get("W_C_2", 1.0)
    if kind == "a head":
        return attention_head(*first, L_out=L_sigma * W_C, **known)
    c = norms["c_2"] if kind == "a read-out c" else W_C * norms["w_2"]
    return scalar_head(*first, c, L_sigma=L_sigma, **known)


def paper_cover_from_norms(
    norms: dict[str, float], sample: Sample, eps: float, *, d: int, k: int | None = None
) -> Bound:
    """ln N of the same head with the paper's constants (`paper_style_cover`), for comparison.

    ||W_QK^T||_{2,1} is at most sqrt(d) ||W_QK||_F if it is not given. A linear read-out v has
    one column, so both norms of its values are |v|.
    """
    radius = norms.get("B_X", 1.0)
    known = {"B_X": radius, "B_z": norms.get("B_z", radius)}
    rows = norms.get("W_QK_T_21", norms["W_QK_F"] * math.sqrt(d))
    if "v_2" in norms:
        return paper_style_cover(rows, norms["v_2"], norms["v_2"], sample, eps, **known)
    values = matrix_from(norms, "W_V", d if k is None else k, d)
    read_out = norms.get("c_2", norms.get("W_C_2", 1.0) * norms.get("w_2", 1.0))
    known["L_out"] = norms.get("L_sigma", 1.0) * read_out
    return paper_style_cover(rows, values.norm_2, values.norm_2_1, sample, eps, **known)


def _kind(norms: dict[str, float], layers: int) -> str:
    if layers > 1:
        return "several layers"
    for name, kind in (
        ("v_2", "a linear read-out v"),
        ("c_2", "a read-out c"),
        ("w_2", "a read-out w"),
    ):
        if name in norms:
            return kind
    return "a head"


def _check_used(norms: dict[str, float], kind: str) -> None:
    """Refuse a given norm that the bound does not use."""
    unused = sorted(set(norms) - USED[kind])
    require(not unused, "--norms", f"only norms that {kind} uses", ", ".join(unused))
    centred = "C_N" not in norms or "r_X" not in norms
    require(centred, "r_X", "no C_N beside it (recentred keys need a shift-invariant Norm)", "both")


def _inputs(norms: dict[str, float]) -> Inputs:
    weighting = only_lipschitz(norms["C_N"]) if "C_N" in norms else SOFTMAX
    return Inputs(norms.get("B_X", 1.0), norms.get("B_z"), norms.get("r_X"), weighting)


def _stack(
    norms: dict[str, float], W_QK: MatrixNorms, d: int, k: int, layers: int
) -> FunctionClass:
    layer = PaperLayer(
        W_QK,
        matrix_from(norms, "W_V", k, d),
        matrix_from(norms, "W_C", d, k),
        d,
        k,
        norms.get("L_sigma", 1.0),
        _inputs(norms).weighting,
    )
    return paper_network([layer] * layers, norms.get("w_2", 1.0), B_X=norms.get("B_X", 1.0))


def matrix_from(
    norms: dict[str, float], name: str, columns: int, rows: int, rank: int | None = None
) -> MatrixNorms:
    """The norms of one matrix from the given ones; missing norms by the chain of inequalities.

    Raises InputError when no matrix of this shape has the norms that are given.
    """
    spectral, frobenius, lengths = (norms.get(f"{name}_{i}") for i in ("2", "F", "21"))
    given = spectral or frobenius or lengths
    require(given, "--norms", f"{name} (its spectral norm)", sorted(norms))
    thin = min(rows, columns, rank or columns)
    _check_chain(name, norms, thin, columns)
    spread_out = math.sqrt(thin) * spectral if spectral else math.inf
    if frobenius is None:
        frobenius = min(lengths or math.inf, spread_out)
    lengths = math.sqrt(columns) * frobenius if lengths is None else lengths
    spectral = frobenius if spectral is None else spectral
    return MatrixNorms(spectral, frobenius, lengths, math.inf, rank=rank)


def _check_chain(name: str, norms: dict[str, float], rank: int, columns: int) -> None:
    """||W||_2 <= ||W||_F <= sqrt(rank) ||W||_2 and so on, for every pair that is given."""
    chain = (
        ("2", "F", rank),
        ("2", "21", rank * columns),
        ("F", "21", columns),
        ("F", "T_21", columns),
    )
    for low, high, factor in chain:
        small, large = norms.get(f"{name}_{low}"), norms.get(f"{name}_{high}")
        if small is None or large is None:
            continue
        least, most = small * (1 - 1e-9), math.sqrt(factor) * small * (1 + 1e-9)
        text = f"at least {name}_{low} = {small:g}"
        require(large >= least, f"{name}_{high}", text, large)
        text = f"at most {math.sqrt(factor) * small:.4g}, as {name}_{low} = {small:g}"
        require(large <= most, f"{name}_{high}", text, large)
