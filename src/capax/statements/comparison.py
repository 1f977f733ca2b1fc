"""The paper's number and ours, for given norms, as in `capax theorems A.17 --explain`.

`paper` is the printed form, without the constant that "<~" hides; `corrected` its correction, if
the printed form fails; `ours` the number that the library proves or attains.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from capax.capacity.complexity.chaining import rademacher_from_cover
from capax.capacity.complexity.generalization import lemma_2_2
from capax.capacity.linear.linear_classes import log_cover_matrix_21, log_cover_vector, zhang_bound
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.network.head_bounds import attention_head
from capax.capacity.network.head_lipschitz import head_distance, theorem_4_2
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.multi_head_bounds import ResidualHead, multi_head
from capax.capacity.network.paper_network import PaperLayer, paper_network
from capax.capacity.network.sample_points import Sample
from capax.errors import CapaxError, require
from capax.statements.forms import printed_bounds as printed
from capax.statements.forms.head_shattering import smallest_norm
from capax.statements.forms.token_influence import influence_bound

Number = Callable[..., float | int]


@dataclass(frozen=True)
class Comparison:
    """`quantity` as a function of the parameters in `defaults`: paper's form, corrected, ours."""

    quantity: str
    defaults: dict[str, float | int]
    paper: Number
    ours: Number
    corrected: Number | None = None

    def evaluate(self, given: dict[str, float | int]) -> dict[str, Any]:
        """Parameters and numbers. Raises `InputError` for unknown parameters."""
        known = ", ".join(self.defaults)
        for name in given:
            require(name in self.defaults, "norms", f"names among {known}", name)
        values = {**self.defaults, **given}
        for name, value in values.items():
            _check_parameter(name, value)
        exact = {k: int(v) if k in WHOLE else v for k, v in values.items()}
        if "s" in values and "T" in values:
            require(exact["s"] <= exact["T"], "s", f"at most T = {exact['T']}", exact["s"])
        if "Delta" in values:
            most = 1 / (2 * exact["s"] - 1)
            fits = values["Delta"] < most
            require(fits, "Delta", f"a number below 1/(2s - 1) = {most:.4g}", values["Delta"])
        forms = {"paper": self.paper, "ours": self.ours, "corrected": self.corrected}
        asked = {name: form for name, form in forms.items() if form is not None}
        numbers = {name: _number(form, exact) for name, form in asked.items()}
        return {"quantity": self.quantity, "parameters": values, **numbers}


WHOLE = {"d", "k", "m", "T", "N", "d_1", "H", "layers", "s"}
MOST = {"layers": 1000, "s": 1000, "H": 1000}
"""Limits of the counts with explicit sums over them; other counts are below 10^15."""
SHARES = {"delta", "alpha"}
MAY_BE_ZERO = {"Delta", "S", "R", "B_P", "scores", "values", "distance"}


def _check_parameter(name: str, value: float | int) -> None:
    """Counts are integers, shares in (0, 1), gamma in (0, 1], all others finite and > 0."""
    if name in WHOLE:
        most = MOST.get(name, 10**15)
        whole = math.isfinite(value) and value == int(value)
        require(whole and 1 <= value <= most, name, f"an integer in 1..{most}", value)
    elif name in SHARES:
        require(0 < value < 1, name, "a number strictly between 0 and 1", value)
    elif name == "gamma":
        require(0 < value <= 1, name, "a number in (0, 1]", value)
    else:
        positive = value > 0 or (value == 0 and name in MAY_BE_ZERO)
        wanted = "a finite number >= 0" if name in MAY_BE_ZERO else "a finite number > 0"
        require(math.isfinite(value) and positive, name, wanted, value)


def _number(form: Number, values: dict[str, Any]) -> float:
    """One number; `InputError` if it overflows float64 or the statement does not apply."""
    try:
        found = float(form(**values))
    except CapaxError:
        raise
    except (ArithmeticError, ValueError):
        found = math.nan
    wanted = "parameters for which the statement gives a finite number"
    require(
        math.isfinite(found), "norms", wanted, ", ".join(f"{k}={v:g}" for k, v in values.items())
    )
    return found


COUNTS: dict[str, float | int] = {"d": 64, "m": 1000, "T": 100}
HEAD: dict[str, float | int] = {"B_V_21": 2.0, "B_V": 1.0, "B_QK_21": 4.0, "B_X": 1.0, "eps": 0.5}


def _head(B_V_21: float, B_V: float, B_QK_21: float, B_X: float, eps: float, **n: int) -> float:
    """Our cover of one head; ||W_QK||_F is at most the (2,1) norm of its transpose."""
    inputs, sample = Inputs(B_X=B_X), Sample(n["m"], n["T"])
    made = attention_head(B_QK_21, B_V, B_V_21, k=n["d"], inputs=inputs, d=n["d"])
    return made.cover(sample, eps).value


def _printed_head(version: printed.Version) -> Number:
    def value(B_V_21: float, B_V: float, B_QK_21: float, eps: float, **rest: Any) -> float:
        return printed.corollary_4_5_printed(B_V_21, B_V, B_QK_21, eps, version=version, **rest)

    return value


def _positions(as_printed: bool) -> Number:
    def value(B_V_21: float, B_V: float, B_QK_21: float, eps: float, **rest: Any) -> float:
        return printed.lemma_a_11(B_V_21, B_V, B_QK_21, eps, printed=as_printed, **rest)

    return value


def _heads(as_printed: bool) -> Number:
    def value(H: int, B_V_21: float, B_V: float, B_QK_21: float, eps: float, **n: Any) -> float:
        heads = [(B_V_21, B_V, B_QK_21)] * H
        return printed.lemma_a_12(heads, eps, printed=as_printed, **n)

    return value


def _our_heads(
    H: int, B_V_21: float, B_V: float, B_QK_21: float, B_X: float, eps: float, **n: int
) -> float:
    one = ResidualHead(
        MatrixNorms(B_QK_21, B_QK_21, B_QK_21, B_QK_21), MatrixNorms(B_V, B_V_21, B_V_21, B_V_21)
    )
    made = multi_head([one] * H, d=n["d"], inputs=Inputs(B_X=B_X))
    return made.cover(Sample(n["m"], n["T"]), eps).value


def _depth(as_printed: bool) -> Number:
    def value(layers: int, C_2: float, C_21: float, B_w: float, eps: float, **n: Any) -> float:
        stack = [printed.LayerBounds(C_2, C_2, C_2, C_21, C_21, C_21)] * layers
        return printed.theorem_a_17(stack, B_w, eps, printed=as_printed, **n)

    return value


def _our_depth(layers: int, C_2: float, C_21: float, B_w: float, eps: float, **n: int) -> float:
    norms = MatrixNorms(C_2, C_21, C_21, C_21)
    layer = PaperLayer(norms, norms, norms, d=n["d"], k=n["k"])
    return paper_network([layer] * layers, B_w).cover(Sample(n["m"], n["T"]), eps).value


DEPTH: dict[str, float | int] = {
    "layers": 3, "C_2": 1.0, "C_21": 4.0, "B_w": 10.0, "eps": 0.5, "d": 64, "k": 16, "m": 1000,
    "T": 100,
}  # fmt: skip
"""B_w is not 1, because at 1 the printed form, which lacks B_w in its sum, is not wrong."""
GENERALIZATION: dict[str, float | int] = {"C": 1.0, "m": 10_000, "delta": 0.05}
SELECTION: dict[str, float | int] = {"T": 1000, "s": 3, "gamma": 0.5, "Delta": 0.05}


def _gap(s: int, Delta: float) -> float:
    return (1 - (2 * s - 1) * Delta) / (1 - (s - 1) * Delta)


COMPARISONS: dict[str, Comparison] = {
    "Section 2": Comparison(
        "ln N of a linear class", {"B_X": 1.0, "B_W": 4.0, "eps": 0.5, "m": 1000},
        lambda B_X, B_W, eps, m: (B_X * B_W / eps) ** 2 * math.log(B_X * B_W * m / eps),
        lambda B_X, B_W, eps, m: log_cover_vector(B_W, B_X, eps, m),
    ),
    "2.2": Comparison(
        "gap between error and training error", GENERALIZATION,
        lambda C, m, delta: 4 * printed.rademacher_printed(C, 1.0, m)
        + printed.deviation_printed(0.0, m, delta),
        lambda C, m, delta: lemma_2_2(C, m, delta).value,
        lambda C, m, delta: printed.lemma_a_5(C, 1.0, m, delta),
    ),
    "4.2": Comparison(
        "ln N of a head", {"C_score": 4.0, "C_in": 4.0, "alpha": 0.5, "B_in": 1.0, "eps": 0.5},
        lambda C_score, C_in, alpha, B_in, eps: printed.theorem_4_2_split(
            lambda e: C_score / e**2, lambda e: C_in / e**2, eps, alpha, B_in=B_in, B_X=1.0),
        lambda C_score, C_in, B_in, eps, **_: theorem_4_2(C_score, C_in, eps, B_phi=B_in).value,
    ),
    "4.3": Comparison(
        "distance of two heads", {"scores": 0.1, "values": 0.1, "B_in": 1.0, "B_X": 1.0},
        lambda scores, values, B_in, B_X: 2 * B_in * B_X * scores + values,
        lambda scores, values, B_in, B_X: head_distance(scores, values, B_phi=B_in * B_X).value,
    ),
    "4.4": Comparison(
        "norm for all sign patterns with a margin", {"T": 1024, "margin": 0.25},
        lambda T, **_: float(T) ** 2,
        lambda T, margin: smallest_norm(T, margin),
    ),
    "4.5": Comparison(
        "ln N of one head", {**HEAD, **COUNTS},
        _printed_head("main text"), _head, _printed_head("corrected"),
    ),
    "4.6": Comparison(
        "ln N of x -> Wx", {"B_X": 1.0, "B_W": 4.0, "eps": 0.5, "d_1": 64, "N": 100_000},
        lambda B_X, B_W, eps, d_1, N: printed.lemma_4_6_two_stages(B_X, B_W, eps, d_1, N),
        lambda B_X, B_W, eps, d_1, N: log_cover_matrix_21(B_W, B_X, eps, N, d_1),
    ),
    "4.7": Comparison("ln N of L equal layers", DEPTH, _depth(True), _our_depth, _depth(False)),
    "A.2": Comparison(
        "Rademacher complexity", {"C": 1.0, "A": 1.0, "m": 10_000},
        lambda C, A, m: printed.dudley_printed(lambda e: C / e**2, A, m, delta=math.sqrt(C / m)),
        lambda C, A, m: rademacher_from_cover(C, A, m),
    ),
    "A.3": Comparison(
        "Rademacher complexity", {"C": 1.0, "A": 1.0, "m": 10_000},
        lambda C, A, m: printed.rademacher_printed(C, A, m),
        lambda C, A, m: rademacher_from_cover(C, A, m),
        lambda C, A, m: printed.rademacher_corrected(C, A, m),
    ),
    "A.4": Comparison(
        "|risk - empirical risk|", {"R": 0.01, "m": 10_000, "delta": 0.05},
        lambda R, m, delta: printed.deviation_printed(R, m, delta),
        lambda R, m, delta: printed.deviation_corrected(R, m, delta),
    ),
    "A.6": Comparison(
        "c_f of softmax on T scores", {"T": 100},
        lambda **_: 2.0, lambda **_: 1.0, lambda T: 2 * (1 - 1 / T),
    ),
    "A.7": Comparison(
        "||softmax(a) - softmax(b)||_1", {"distance": 0.5},
        lambda distance: 2 * distance, lambda distance: 2 * math.tanh(distance / 2),
    ),
    "A.10": Comparison(
        "ln N of a linear class", {"B_1": 4.0, "B_2": 1.0, "eps": 0.5, "N": 1000},
        lambda B_1, B_2, eps, N: zhang_bound(B_1, B_2, eps, N),
        lambda B_1, B_2, eps, N: log_cover_vector(B_1, B_2, eps, N),
    ),
    "A.11": Comparison(
        "ln N of one head with fixed positions", {**HEAD, "B_P": 1.0, **COUNTS},
        _positions(True),
        lambda B_X, B_P, **rest: _head(B_X=B_X + B_P, **rest), _positions(False),
    ),
    "A.12": Comparison(
        "ln N of H heads", {"H": 4, **HEAD, **COUNTS}, _heads(True), _our_heads, _heads(False)
    ),
    "A.13": Comparison(
        "distance of two heads", {"B_V": 1.0, "scores": 0.1, "values": 0.1},
        lambda B_V, scores, values: 2 * B_V * scores + values,
        lambda B_V, scores, values: B_V * scores + values,
    ),
    "A.14": Comparison(
        "Lipschitz constant of a head", {"B_V": 1.0, "B_QK": 1.0},
        lambda B_V, B_QK: B_V * (1 + 4 * B_QK), lambda B_V, B_QK: B_V * (1 + 2 * B_QK),
    ),
    "A.15": Comparison(
        "Lipschitz constant of a block", {"B_C": 1.0, "B_V": 1.0, "B_QK": 1.0},
        lambda B_C, B_V, B_QK: B_C * B_V * (1 + 4 * B_QK),
        lambda B_C, B_V, B_QK: B_C * B_V * (1 + 2 * B_QK),
    ),
    "A.17": Comparison("ln N of L equal layers", DEPTH, _depth(True), _our_depth, _depth(False)),
    "B.2": Comparison(
        "||W_Q||_F of one head", SELECTION,
        lambda T, s, gamma, Delta: math.log(8 * T / gamma) / (1 - s * Delta),
        lambda T, s, gamma, Delta: math.log(8 * T / gamma) / _gap(s, Delta),
    ),
    "B.3": Comparison(
        "||W_Q||_F", {"T": 1000, "gamma": 0.5},
        lambda T, gamma: math.log(8 * T / gamma), lambda T, gamma: math.log(8 * T / gamma),
    ),
    "B.4": Comparison(
        "||W_Q||_F", SELECTION,
        lambda T, s, gamma, Delta: math.log(8 * T * s * (1 + Delta) / (gamma - s * Delta))
        / (1 - s * Delta),
        lambda T, s, gamma, Delta: math.log(8 * T * s * (1 + Delta) / gamma) / _gap(s, Delta),
    ),
    "B.5": Comparison(
        "ReLU units of a symmetric function", {"s": 3},
        lambda s: 6 * (s + 1), lambda s: 2 * s,
    ),
    "B.6": Comparison(
        "ReLU units of any function", {"s": 3},
        lambda s: (4 * s + 2) * 2**s, lambda s: 2 * 2**s,
    ),
    "B.7": Comparison(
        "||softmax(z') - softmax(z)||_1", {"T": 100, "s": 3, "R": 5.0},
        lambda T, s, R: 2 * (T - s) / (s * math.exp(R)),
        lambda T, s, R: 2 * (T - s) / (s * math.exp(R) + T - s),
    ),
    "B.8": Comparison(
        "largest entry of W_1", {"B": 1.0, "delta": 0.25},
        lambda B, delta: max(1.0, B) / delta, lambda B, delta: max(1.0, B + 2 * delta) / delta,
    ),
    "Section 5": Comparison(
        "influence of one token, scores in [-S, S]", {"T": 1000, "S": 1.0},
        lambda T, S: influence_bound(T, S), lambda T, S: influence_bound(T, S),
    ),
}  # fmt: skip
COMPARISONS["A.5"] = COMPARISONS["2.2"]


def compare(number: str, given: dict[str, float | int]) -> dict[str, Any] | None:
    """All numbers of a statement for these parameters; None if the statement has no number."""
    made = COMPARISONS.get(number)
    return None if made is None else made.evaluate(given)
