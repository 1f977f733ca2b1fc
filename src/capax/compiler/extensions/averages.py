"""Heads that average (Section 5, remarks): every token, tokens at some positions, or of some kinds.

* `mean(all)`: W_Q = W_K = 0. All scores are 0, and the head gives the mean of its values. [CLS] is
  one more token of value 0, so W_V reads symbol c as c (T + 1)/T.
* `mean(x0..x99, x200)`: members I by position. W_Q = a v_CLS, W_K = sum_{t in I} P_t: score a on I
  and 0 elsewhere. W_V reads c as c Z/(n e^a), Z = n e^a + T - n + 1, so that the members are exact
  and the others add at most e^-a (T - n)(M - 1)/n. A fixed share n/T needs no norm that grows.
* `mean(1, 2; all)`: members by symbol, the tokens that are 1 or 2, wherever and however many they
  are. W_K = sum_{c in C} E_c, so their keys span the |C| directions E_c. All other tokens have the
  value in the middle of C, R = (max C - min C)/2 from its ends: an error of R T/(e^a + T).

The error is proved from the weights (`proof.average_range`), on all M^T inputs; with members by
symbol, on all inputs that have a member.
"""

import math
import re
from dataclasses import dataclass

import jax
import numpy as np

from capax.attention import ClsScalar, DeterministicPositions
from capax.compiler.extensions.average_range import error_by_position, error_by_symbol
from capax.compiler.proof.tables import HeadTables, head_tables
from capax.errors import InfeasibleError, InputError, require
from capax.plain_json import PlainRecord
from capax.rounding import digits_down, digits_up, gamma

MAX_T, MAX_ALPHABET = 10**6, 256
_MEAN = re.compile(r"\s*mean\s*\(([^()]*)\)\s*")
_PART = re.compile(r"x([0-9]{1,9})(?:\s*\.\.\s*x([0-9]{1,9}))?")


@dataclass(frozen=True)
class Members:
    """The averaged tokens: tokens at `positions`, or tokens with a symbol in `symbols`."""

    positions: tuple[int, ...]
    symbols: tuple[int, ...] | None = None


@dataclass(frozen=True)
class AverageCertificate(PlainRecord):
    """`worst_case_error` >= |output - mean| on all inputs (with a member); one input attains
    `attained_error`. `members`: how many positions, or the symbols; `a` = the score of a member.
    """

    function: str
    T: int
    alphabet: int
    members: int | tuple[int, ...]
    eps: float
    a: float
    worst_case_error: float
    attained_error: float
    norms: dict[str, float]
    statements: tuple[str, ...] = ("Section 5, remarks: averages",)


@dataclass(frozen=True)
class Averaged:
    """The head as a `capax.attention` module in float64, and its certificate."""

    model: ClsScalar
    certificate: AverageCertificate


def is_average(text: str) -> bool:
    """Whether a formula is of the form mean(...)."""
    return text.strip().startswith("mean")


def compile_average(text: str, T: int, *, alphabet: int = 2, eps: float = 0.01) -> Averaged:
    """The head for `mean(all)`, `mean(x0..x9)` or `mean(1, 2; all)`, off by at most `eps`.

    Examples:
        >>> from capax.compiler.extensions.averages import compile_average
        >>> made = compile_average("mean(all)", T=1000)
        >>> made.certificate.norms["W_QK_F"], made.certificate.worst_case_error < 1e-9
        (0.0, True)
    """
    require(1 <= T <= MAX_T, "T", f"an integer in 1..{MAX_T}", T)
    fits = 2 <= alphabet <= MAX_ALPHABET
    require(fits, "alphabet", f"an integer in 2..{MAX_ALPHABET}", alphabet)
    require(math.isfinite(eps) and eps > 0, "eps", "an error > 0", eps)
    members = parse_average(text, T, alphabet)
    a = _score(members, T, alphabet, eps)
    if a > 600:
        raise InfeasibleError(f"eps: wanted {eps:g}, which needs scores beyond float64")
    model = _model(members, T, alphabet, a)
    certificate = certify_average(model, members, " ".join(text.split()), eps, a)
    if certificate.worst_case_error > eps:
        reached = certificate.worst_case_error
        raise InfeasibleError(f"eps: wanted {eps:g}, float64 reaches {reached:.3g} here")
    return Averaged(model, certificate)


def parse_average(text: str, T: int, alphabet: int) -> Members:
    """The members that a formula names. Raises `InputError` for other formulas."""
    match = _MEAN.fullmatch(text)
    wanted = "mean(all), mean(x0..x9, x20) or mean(1, 2; all)"
    require(match is not None, "formula", wanted, text)
    assert match is not None
    symbols, _, tokens = match.group(1).rpartition(";")
    everything = tokens.strip() == "all"
    if symbols:
        require(everything, "formula", "all after the symbols: mean(1, 2; all)", text)
        return Members((), _symbols(symbols, alphabet))
    positions = range(T) if everything else _positions(tokens, T)
    return Members(tuple(positions))


def _positions(text: str, T: int) -> list[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        require(match is not None, "formula", "positions such as x3 or x0..x9", part.strip())
        assert match is not None
        first = int(match.group(1))
        last = int(match.group(2) or first)
        require(first <= last < T, "formula", f"positions in order, below T = {T}", part.strip())
        found.update(range(first, last + 1))
    return sorted(found)


def _symbols(text: str, alphabet: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 9 for part in parts):
        raise InputError(f"formula: wanted symbols such as 1, 2 before the semicolon, got {text!r}")
    found = tuple(sorted({int(part) for part in parts}))
    inside = found[-1] < alphabet
    require(inside, "formula", f"symbols below the alphabet of {alphabet}", found[-1])
    proper = 2 <= len(found) < alphabet
    require(proper, "formula", "two or more symbols, but not all (mean(all))", list(found))
    return found


def _score(members: Members, T: int, alphabet: int, eps: float) -> float:
    """The smallest a that meets eps, rounded up a little; 0 if equal scores are enough."""
    small = eps * (1 - 1e-6)
    if members.symbols is None:
        n = len(members.positions)
        leak = (T - n) * (alphabet - 1) / (n * small)
        return max(0.0, math.log(leak)) if leak > 0 else 0.0
    R = (members.symbols[-1] - members.symbols[0]) / 2
    return max(0.0, math.log(T) + math.log(R / small - 1)) if small < R else 0.0


def _model(members: Members, T: int, alphabet: int, a: float) -> ClsScalar:
    """The matrices, one column each; rows P_0..P_{T-1}, E_0..E_{M-1}, v_CLS."""
    W_Q, W_K, W_V = (np.zeros((T + alphabet + 1, 1)) for _ in range(3))
    symbols = np.arange(float(alphabet))
    W_Q[-1] = a
    if members.symbols is None:
        n = len(members.positions)
        W_K[list(members.positions)] = 1.0 if a else 0.0
        W_V[T:-1, 0] = symbols * (n + math.exp(-a) * (T - n + 1)) / n
    else:
        inside = np.isin(symbols, members.symbols)
        W_K[T:-1, 0] = inside & (a > 0)
        middle = (members.symbols[0] + members.symbols[-1]) / 2
        W_V[T:-1, 0] = np.where(inside, symbols, middle)
        W_V[-1] = middle
    with jax.enable_x64(True):
        one = np.ones((1, 1))
        Q, K, V, C, w = (jax.device_put(M) for M in (W_Q, W_K, W_V, one, one[0]))
        return ClsScalar(DeterministicPositions(T, alphabet), Q, K, V, C, w)


def certify_average(
    model: ClsScalar, members: Members, text: str, eps: float, a: float
) -> AverageCertificate:
    """The certificate of a head for the mean of these members, from its weights."""
    plain = np.array_equal(model.W_C, [[1.0]]) and np.array_equal(model.w, [1.0])
    require(plain, "W_C", "a read-out of 1", np.asarray(model.W_C).shape)
    require(model.activation == "identity", "activation", "identity", model.activation)
    tables = head_tables(model)
    if members.symbols is None:
        positions = np.array(members.positions)
        error, worst = error_by_position(tables, positions)
        mean = float(worst[positions].mean())
    else:
        error, worst = error_by_symbol(tables, members.symbols)
        mean = float(worst[np.isin(worst, members.symbols)].mean())
    attained = abs(_output(tables, worst) - mean) - gamma(4 * model.T + 64) * tables.alphabet
    W_Q, W_K, W_V = (np.asarray(M, np.float64) for M in (model.W_Q, model.W_K, model.W_V))
    sizes = {name: float(np.linalg.norm(M)) for name, M in (("W_Q", W_Q), ("W_K", W_K))}
    norms = {f"{name}_F": size for name, size in sizes.items()}
    norms |= {"W_QK_F": sizes["W_Q"] * sizes["W_K"], "W_V_F": float(np.linalg.norm(W_V))}
    count = len(members.positions)
    return AverageCertificate(
        function=text,
        T=model.T,
        alphabet=tables.alphabet,
        members=count if members.symbols is None else members.symbols,
        eps=eps,
        a=a,
        worst_case_error=digits_up(error),
        attained_error=digits_down(max(0.0, attained)),
        norms=norms,
    )


def _output(tables: HeadTables, row: np.ndarray) -> float:
    """The output on one input, in float64."""
    mass, cls_mass = tables.masses()
    at = np.arange(tables.T)
    weights, values = mass[at, row], tables.values.mid[at, row, 0]
    total = weights @ values + cls_mass * float(tables.cls_value.mid[0])
    return float(total / (weights.sum() + cls_mass))
