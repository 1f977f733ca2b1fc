"""Formula in, network and certificate out."""

from typing import Any, NamedTuple

import jax
import numpy as np

from capax.boolean import SparseFunction, parse
from capax.compiler.certificate.certificate import Certificate, certify, table_text
from capax.compiler.construction.assemble import Model, assemble
from capax.compiler.construction.choice import choose
from capax.compiler.construction.families import Construction
from capax.compiler.parts.selection import EncodingName
from capax.errors import require
from capax.html import html_table

MAX_T = 10**8
"""The largest T: arrays of T numbers must fit the memory of a small machine."""


class Compiled(NamedTuple):
    """A network that computes the function on all inputs, its certificate, and how it was made.

    Examples:
        >>> import capax
        >>> compiled = capax.compile("x0 & x2", T=5)
        >>> compiled.certificate.wrong_decisions
        0
    """

    model: Model
    certificate: Certificate
    construction: Construction

    def _repr_html_(self) -> str:
        """The network in a notebook: its function, its error and its norms."""
        claims, inputs = self.certificate, self.certificate.num_inputs
        margin = "none" if claims.margin is None else f">= {claims.margin:.4g}"
        wrong = f"{claims.wrong_decisions} of {inputs}"
        norms = ", ".join(f"{k} {v['frobenius']:.4g}" for k, v in claims.norms.items())
        rows = (
            ("function", claims.function),
            ("T", claims.T),
            ("construction", f"{claims.family}, {claims.mlp_units} MLP units"),
            ("wrong decisions", "not applicable" if claims.margin is None else wrong),
            ("margin", margin),
            ("output", f"within {claims.worst_case_error:.4g} of its target on all inputs"),
            ("Frobenius norms", norms),
        )
        return html_table(rows, title="Compiled head")

    def _repr_latex_(self) -> str:
        """The function it computes."""
        return self.construction.function._repr_latex_()


def compile(
    function: str | SparseFunction,
    T: int | None = None,
    *,
    encoding: EncodingName | str = "deterministic",
    family: str = "auto",
    eps: float | None = None,
    dim: int | None = None,
    dtype: Any = None,
    alphabet: int | None = None,
) -> Compiled:
    """The cheapest bounded-norm Transformer head that computes `function` on T bits.

    Arguments: `function` = a formula (`maj(x1, x5, x9)`) or a `SparseFunction`, real-valued ones
    included; `T` = context length; `alphabet` = number of symbols of a token (2: bits; a
    `SparseFunction` brings its own); `encoding` = deterministic, trainable, bag or incoherent;
    `family` = auto, monotone-symmetric, linear-threshold, symmetric or general; `eps` = allowed
    uniform error of the output (None: exact mode, every decision right); `dim` = length of
    incoherent codes; `dtype` of the model (default: float64 where JAX has it on, else float32; the
    certificate is about float64). Raises `InputError` with the reason when an argument does not
    fit.

    Examples:
        >>> import capax, numpy as np
        >>> compiled = capax.compile("x0 & x2", T=5)
        >>> float(compiled.model(np.array([1, 0, 1, 0, 0]))) > 0
        True
    """
    f = understood(function, T, alphabet)
    construction = choose(f, encoding, family, eps, dim)
    model = assemble(construction, _precision(dtype))
    return Compiled(model, certify(construction, formula_of(function, f), eps), construction)


def understood(
    function: str | SparseFunction, T: int | None, alphabet: int | None = None
) -> SparseFunction:
    """The function on its exact support, with T set."""
    length = T if T is not None or isinstance(function, str) else function.T
    require(length is not None, "T", "a context length", length)
    whole = isinstance(length, int | np.integer) and not isinstance(length, bool)
    require(whole and 1 <= length <= MAX_T, "T", f"an integer in 1..{MAX_T}", length)
    if isinstance(function, str):
        return parse(function, length, alphabet=2 if alphabet is None else alphabet).relevant()
    own = function.alphabet
    require(alphabet in (None, own), "alphabet", f"{own}, that of the function", alphabet)
    return function.on(function.support, length).relevant()


def formula_of(function: str | SparseFunction, f: SparseFunction) -> str:
    """The formula as given, or one that the parser reads back."""
    if isinstance(function, str):
        return " ".join(function.split())
    names = ",".join(f"x{i}" for i in f.support)
    if not f.is_boolean:
        return f"real-valued table on {names or 'no variable'}"
    return f"table({table_text(f)}; {names})" if f.s else str(int(f.table[0]))


def _precision(dtype: Any) -> Any:
    if dtype is not None:
        return np.dtype(dtype)
    return np.dtype(np.float64 if jax.config.jax_enable_x64 else np.float32)  # type: ignore[attr-defined]
