"""A bound without a model: norms written by hand, `W_QK=3.2,W_V=1.5,W_V_21=4,w=1`.

Short names stand for the norm the bound needs: W_QK the Frobenius norm, W_V and W_C the spectral
norm, w, c and v the length. An index after the name chooses another: W_QK_2 or W_V_F or W_V_21.
What is not given follows from ||W||_2 <= ||W||_F <= ||W||_{2,1} <= sqrt(columns) ||W||_F.
"""

import math
from difflib import get_close_matches

from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.network.function_class import FunctionClass, check_norms
from capax.capacity.network.head_bounds import attention_head, linear_head, scalar_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.network_bounds import PaperLayer, paper_network
from capax.errors import InputError, require

# short name -> full name
SHORT = {"W_QK": "W_QK_F", "W_V": "W_V_2", "W_C": "W_C_2", "w": "w_2", "c": "c_2", "v": "v_2"}
KNOWN = (
    "W_QK_F", "W_QK_2", "W_QK_T_21", "W_V_2", "W_V_F", "W_V_21", "W_C_2", "W_C_F", "W_C_21",
    "w_2", "c_2", "v_2", "B_X", "B_z", "r_X", "B_phi", "L_sigma", "C_N",
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
            raise InputError(f"--norms: {name} is not a norm, {hint}")
        try:
            norms[full] = float(value)
        except ValueError:
            raise InputError(f"--norms: wanted a number for {name}, got {value!r}") from None
        check_norms(**{name: norms[full]})
    require(norms, "--norms", "at least one norm, e.g. W_QK=3.2,W_V=1.5,w=1", text)
    return norms


def class_from_norms(
    norms: dict[str, float], *, d: int, k: int | None = None, layers: int = 1
) -> FunctionClass:
    """The class the norms describe: `v` a linear read-out, `w` or `c` a scalar one, else a head.

    More than one layer: the paper's stack with equal layers (Theorem 4.7).
    """
    require(d >= 1, "d", "a positive width", d)
    require(layers >= 1, "layers", "at least one layer", layers)
    width = d if k is None else k
    require(width >= 1, "k", "a positive head width", width)
    inputs = Inputs(
        norms.get("B_X", 1.0), norms.get("B_z", norms.get("B_X", 1.0)), norms.get("r_X"),
        norms.get("C_N", 1.0),
    )  # fmt: skip
    require("W_QK_F" in norms, "--norms", "W_QK (the Frobenius norm)", sorted(norms))
    if layers > 1:
        return _stack(norms, d, width, layers, inputs)
    if "v_2" in norms:
        return linear_head(
            norms["W_QK_F"], norms["v_2"], B_phi=norms.get("B_phi"), inputs=inputs, d=d
        )
    values = matrix_from(norms, "W_V", width)
    common = {"k": width, "W_V_F": values.norm_F, "B_phi": norms.get("B_phi"), "inputs": inputs}
    first = (norms["W_QK_F"], values.norm_2, values.norm_2_1)
    L_sigma = norms.get("L_sigma", 1.0)
    if "c_2" in norms or "w_2" in norms:
        c = norms.get("c_2", norms.get("W_C_2", 1.0) * norms.get("w_2", 1.0))
        return scalar_head(*first, c, L_sigma=L_sigma, d=d, **common)  # type: ignore[arg-type]
    L_out = L_sigma * norms.get("W_C_2", 1.0)
    return attention_head(*first, L_out=L_out, d=d, **common)  # type: ignore[arg-type]


def _stack(norms: dict[str, float], d: int, k: int, layers: int, inputs: Inputs) -> FunctionClass:
    layer = PaperLayer(
        matrix_from(norms, "W_QK", d),
        matrix_from(norms, "W_V", k),
        matrix_from(norms, "W_C", d),
        d,
        k,
        norms.get("L_sigma", 1.0),
        inputs.C_N,
    )
    return paper_network([layer] * layers, norms.get("w_2", 1.0), B_X=inputs.B_X)


def matrix_from(norms: dict[str, float], name: str, columns: int) -> MatrixNorms:
    """The norms of one matrix from those given; what is missing by the chain of inequalities."""
    spectral, frobenius, lengths = (norms.get(f"{name}_{i}") for i in ("2", "F", "21"))
    require(
        spectral or frobenius or lengths, "--norms", f"{name} (its spectral norm)", sorted(norms)
    )
    if frobenius is None:
        frobenius = lengths or math.sqrt(columns) * (spectral or 0.0)
    lengths = math.sqrt(columns) * frobenius if lengths is None else lengths
    spectral = frobenius if spectral is None else spectral
    ordered = spectral <= frobenius * (1 + 1e-9) or f"{name}_F" not in norms
    require(ordered, f"{name}_F", f"at least {name}_2 = {spectral:g}", frobenius)
    lengths = max(lengths, spectral)
    return MatrixNorms(spectral, max(frobenius, spectral), lengths, math.inf)
