"""A function from bits, or symbols, to a number, evaluated in batches and counted.

An oracle has the input length T, the alphabet, the threshold above which a number means 1, and the
number of evaluated inputs. Capax models run in JAX, the one-layer ones on their collapse; PyTorch
modules and scikit-learn estimators are recognised by their methods, so that neither library is
imported here.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt8

from capax.boolean.functions import most_positions
from capax.errors import InputError, require

BATCH = 4096
CELLS = 1 << 22
"""Bits in one batch: fewer rows where T is long."""
JITTED = ("Transformer", "PaperStack")
Numbers = Callable[[UInt8[np.ndarray, "n T"]], Float[np.ndarray, " n"]]


@dataclass
class Oracle:
    """`numbers` of a batch of inputs; a number above `threshold` is the decision 1."""

    numbers: Numbers
    T: int
    threshold: float
    kind: str
    model: Any = None
    padded: bool = False
    alphabet: int = 2
    queries: int = field(default=0)

    def values(self, X: UInt8[np.ndarray, "n T"]) -> Float[np.ndarray, " n"]:
        """The numbers at the rows of X, in batches. Raises `InputError` for NaN or a wrong shape.

        If a program is compiled for a shape (`padded`), short batches are filled with zeros.
        """
        rows = max(1, min(BATCH, CELLS // self.T))
        parts = [self._batch(X[i : i + rows], rows) for i in range(0, len(X), rows)]
        self.queries += len(X)
        return np.concatenate(parts) if parts else np.empty(0)

    def __call__(self, X: UInt8[np.ndarray, "n T"]) -> Bool[np.ndarray, " n"]:
        """The decisions at the rows of X."""
        return self.values(X) > self.threshold

    def _batch(self, X: np.ndarray, rows: int) -> np.ndarray:
        size = len(X)
        if self.padded:
            size = next(n for n in (rows // 64, rows // 4, rows) if n >= len(X))
        padded = X if len(X) == size else np.pad(X, ((0, size - len(X)), (0, 0)))
        found = np.asarray(self.numbers(padded), dtype=np.float64)
        if found.ndim == 2 and found.shape[1] == 1:
            found = found[:, 0]
        right = found.shape == (len(padded),)
        require(right, "model", f"{len(padded)} numbers for {len(padded)} inputs", found.shape)
        found = found[: len(X)]
        require(not np.isnan(found).any(), "model", "outputs that are numbers", "NaN")
        return found


def oracle(
    model: Any, T: int | None = None, threshold: float | None = None, alphabet: int | None = None
) -> Oracle:
    """An oracle for a Capax module, a PyTorch module, a scikit-learn estimator or a callable.

    A callable takes bits [n, T] (uint8) and gives n numbers. `T` is needed if the model does not
    have it; `alphabet` = number of symbols (the model's own, else 2); `threshold` defaults to the
    model's own: 0, or 1/2 for compiled MLP networks and for class labels.
    """
    made = _capax(model) or _estimator(model) or _torch(model) or _callable(model)
    numbers, length, usual, kind = made
    known = T if T is not None else length
    if known is None:
        raise InputError("T: give the number of input bits, which this model does not have")
    whole = isinstance(known, int | np.integer) and not isinstance(known, bool) and known >= 1
    require(whole, "T", "a positive integer", known)
    require(length in (None, known), "T", f"{length}, the length the model was made for", T)
    limit = usual if threshold is None else float(threshold)
    require(np.isfinite(limit), "threshold", "a finite number", threshold)
    jitted = type(model).__module__.startswith("capax.")
    padded = jitted and kind in JITTED
    return Oracle(numbers, int(known), limit, kind, model, padded, _symbols(model, alphabet))


def _symbols(model: Any, alphabet: int | None) -> int:
    """The alphabet of a model, which must agree with the requested one."""
    from capax.attention.readout import ClsMLP, ClsScalar
    from capax.attention.transformer import Transformer

    known = None
    if isinstance(model, Transformer):
        known = model.spec.alphabet
    if isinstance(model, ClsScalar | ClsMLP):
        from capax.compiler.proof.tables import alphabet_of

        known = alphabet_of(model)
    fits = alphabet in (None, known) or known is None
    require(fits, "alphabet", f"{known}, the symbols the model was made for", alphabet)
    found = known or alphabet or 2
    most_positions(found)  # raises for an invalid alphabet
    return found


def same_again(
    model: Oracle, X: UInt8[np.ndarray, "n T"], expected: Bool[np.ndarray, " n"]
) -> None:
    """Raise `InputError` unless the decisions at X are the `expected` ones again."""
    other = int((model(X) != expected).sum())
    if other:
        raise InputError(
            f"model: not deterministic: another decision on {other} of {len(X)} inputs in a second "
            f"evaluation; switch off sampling, dropout and batch statistics"
        )


Made = tuple[Numbers, int | None, float, str]


def _capax(model: Any) -> Made | None:
    """Capax modules take one example: the batch is `vmap`, or the tables of a one-layer model."""
    if not type(model).__module__.startswith("capax."):
        return None
    from capax.attention.parts.normalizers import Softmax
    from capax.attention.readout import ClsMLP, ClsScalar
    from capax.attention.stack import PaperStack
    from capax.attention.transformer import Transformer

    name = type(model).__name__
    if isinstance(model, Transformer):
        return _transformer(model), model.spec.T, model.threshold, name
    if isinstance(model, PaperStack):
        return _vmapped(model), model.T, model.threshold, name
    if not isinstance(model, ClsScalar | ClsMLP):
        return None
    plain = isinstance(model.norm, Softmax) and model.norm.temperature == 1.0
    numbers = _tabulated(model) if plain and _is_plain(model) else _vmapped(model)
    return numbers, model.T, model.threshold, name


def _is_plain(model: Any) -> bool:
    return hasattr(model, "W_1") or model.activation == "identity"


def _tabulated(model: Any) -> Numbers:
    """A one-head [CLS] model from its tables, in float64, without compilation."""
    from capax.compiler.proof.tables import head_tables, readout_output

    tables = head_tables(model)
    return lambda X: readout_output(model, tables.head(X.astype(np.int64)))


def _vmapped(model: Any) -> Numbers:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    wide = any(x.dtype == np.float64 for x in jax.tree.leaves(model) if eqx.is_array(x))
    run = _programs()[0]

    def numbers(X: np.ndarray) -> np.ndarray:
        with jax.enable_x64(wide):
            return np.asarray(run(model, jnp.asarray(X, jnp.int32)))

    return numbers


def _transformer(model: Any) -> Numbers:
    import jax
    import jax.numpy as jnp

    from capax.attention.collapsed.one_layer import why_not

    if why_not(model.spec) is not None:
        return _vmapped(model)
    wide = bool(model.w.dtype == np.float64)
    _, tabulated, logits, _ = _programs()
    with jax.enable_x64(wide):
        params, tables = tabulated(model)

    def numbers(X: np.ndarray) -> np.ndarray:
        with jax.enable_x64(wide):
            return np.asarray(logits(params, tables, jnp.asarray(X, jnp.uint8)))

    return numbers


def attention_of(model: Any, X: UInt8[np.ndarray, "n T"]) -> list[Float[np.ndarray, "n H columns"]]:
    """Attention weights of the [CLS] query of a Transformer, layer by layer."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(bool(model.w.dtype == np.float64)):
        layers = _programs()[3](model, jnp.asarray(X, jnp.int32))
    return [np.asarray(w, np.float64) for w in layers]


def attention_by_position(model: Any, X: UInt8[np.ndarray, "n T"]) -> list[float]:
    """Weight of each position and of [CLS] in the last layer, a mean over heads and rows of X.

    Five decimals, for pages and files that hold many of them.
    """
    weights = attention_of(model, X)[-1]  # [n, H, T + 1]
    return [round(float(w), 5) for w in weights.mean(axis=(0, 1))]


@functools.cache
def _programs() -> tuple[Any, Any, Any, Any]:
    """Compiled once for all models of a shape: the parameters are arguments."""
    import equinox as eqx
    import jax

    from capax.attention.collapsed.design import one_hot
    from capax.attention.collapsed.one_layer import collapse, tabulate, tabulated_logits

    @eqx.filter_jit
    def run(model: Any, X: Any) -> Any:
        return jax.vmap(lambda bits: model(bits))(X)

    @eqx.filter_jit
    def tabulated(model: Any) -> Any:
        params = collapse(model)
        return params, tabulate(params)

    @eqx.filter_jit
    def logits(params: Any, tables: Any, X: Any) -> Any:
        A = params.embed.shape[0]
        return tabulated_logits(params, tables, one_hot(X, A, params.w.dtype))[0]

    @eqx.filter_jit
    def weights(model: Any, X: Any) -> Any:
        return jax.vmap(lambda bits: model(bits, return_weights=True)[1])(X)

    return run, tabulated, logits, weights


def _estimator(model: Any) -> Made | None:
    """scikit-learn: class labels 0 and 1, or the numbers of a regressor."""
    if not callable(getattr(model, "predict", None)) or not hasattr(model, "get_params"):
        return None
    T = getattr(model, "n_features_in_", None)
    classes = getattr(model, "classes_", None)
    if classes is not None and list(classes) not in ([0, 1], [0], [1]):
        raise InputError(f"model: wanted a classifier of the labels 0 and 1, got {list(classes)}")
    return lambda X: np.asarray(model.predict(X)), T, 0.5, type(model).__name__


def _torch(model: Any) -> Made | None:
    """A PyTorch module, in evaluation mode and without gradients."""
    if not is_torch_module(model):
        return None
    return torch_numbers(model), None, 0.0, type(model).__name__


def is_torch_module(model: Any) -> bool:
    """Whether `model` is a `torch.nn.Module`; PyTorch is not imported for it."""
    return any(base.__module__.startswith("torch.nn") for base in type(model).__mro__)


def torch_numbers(model: Any) -> Numbers:
    """Bits -> numbers of a PyTorch module.

    It receives floats 0.0 and 1.0, or integers if it takes no floats. Its output is a tensor
    [n] or [n, 1], or [n, 2]: then the second number minus the first; or an object with `logits`, as
    the models of `transformers` give.
    """
    import torch

    first = next((p for p in model.parameters() if p.is_floating_point()), None)
    device = "cpu" if first is None else first.device
    kinds = [torch.float32 if first is None else first.dtype, torch.long]

    def answer(X: np.ndarray) -> Any:
        while True:
            try:
                return model(torch.tensor(X, dtype=kinds[0], device=device))
            except (RuntimeError, TypeError, IndexError):
                if len(kinds) == 1:
                    raise
                kinds.pop(0)

    def numbers(X: np.ndarray) -> np.ndarray:
        training = model.training
        model.eval()
        try:
            with torch.no_grad():
                out = answer(X)
                out = getattr(out, "logits", out)
                found = out.detach().cpu().double().numpy()
        finally:
            model.train(training)
        return found[:, 1] - found[:, 0] if found.ndim == 2 and found.shape[1] == 2 else found

    return numbers


def _callable(model: Any) -> Made:
    require(callable(model), "model", "a module, an estimator or a callable bits -> number", model)
    return lambda X: np.asarray(model(X)), None, 0.0, getattr(model, "__name__", "callable")
