"""The exact collapse of a one-layer [CLS] Transformer over a finite alphabet.

With one layer, one fixed query and an alphabet of A symbols, the score and the value of a token
depend on its (symbol, position) pair only, not on the rest of the example. Per head

    head(b) = (w_* v_* + sum_t w[b_t,t] v[b_t,t]) / (w_* + sum_t w[b_t,t]),   w = exp(g - mu),

so the numerators and denominators of all examples are one product of the one-hot design matrix
(m x A T) with a table (A T x (d + H)): no m x T x d activations, no T^2. The one-hot form adds
weights of one sign and loses nothing when scores spread over many nats; the affine form with
(A - 1) T columns cancels in float32 and is not used.

Derivation (ours). C = I - 11^T/d centres a vector; r[c,t] = (|C(E_c + P_t)|^2/d + eps)^(-1/2).
LayerNorm makes the token x[c,t] = r[c,t] C(E_c + P_t) o gain + bias, so a linear map W of it is
r[c,t] (P_t W' + E_c W') + const with W' = C diag(gain) W: one product P W' with T rows serves all
symbols. The constant (LayerNorm bias, b_V) passes through the weighted mean and is added after the
division; in the scores it shifts a whole head alike and cancels, as the key bias does.

Columns are ordered (k, H), head last: a head's weight then multiplies whole vectors.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Integer

from capax.attention.block import LayerNorm, normalised
from capax.attention.collapsed.design import Design, matmul, over_tokens
from capax.attention.collapsed.one_layer_table import centred, head_sums, inverse_deviation, table
from capax.attention.collapsed.row_norm import normalised_rows
from capax.attention.parts.activations import activated
from capax.attention.parts.scores import ScaleRule, attention_scale
from capax.attention.transformer import Transformer, TransformerSpec, assemble
from capax.errors import InputError


def why_not(spec: TransformerSpec) -> str | None:
    """Why the collapse does not cover a model, in one line; None if it does."""
    if spec.layers > 1:
        return f"{spec.layers} layers: the tokens of layer 2 depend on the whole sequence"
    if spec.normalizer != "softmax":
        return f"normalizer {spec.normalizer}: only softmax weights are collapsed"
    return None


class Collapsed(eqx.Module):
    """The parameters of a one-layer Transformer in the column order of the collapse."""

    embed: Float[Array, "A d"]
    position: Float[Array, "d T"]
    cls: Float[Array, "d"]
    ln1: LayerNorm | None
    W_Q: Float[Array, "k H d"]
    W_K: Float[Array, "k H d"]
    W_V: Float[Array, "k H d"]
    b_Q: Float[Array, "k H"]
    b_K: Float[Array, "k H"]
    b_V: Float[Array, "k H"]
    W_O: Float[Array, "k H d"]
    b_O: Float[Array, "d"]
    ln2: LayerNorm | None
    W_in: Float[Array, "d n"]
    b_in: Float[Array, "n"]
    W_out: Float[Array, "d n"]
    b_out: Float[Array, "d"]
    ln_final: LayerNorm | None
    w: Float[Array, "d"]
    b: Float[Array, ""]
    activation: str = eqx.field(static=True)
    scale: ScaleRule = eqx.field(static=True)


_PER_HEAD = ("W_Q", "W_K", "W_V")  # [H, d, k] <-> [k, H, d]
_BIASES = ("b_Q", "b_K", "b_V")  # [H, k] <-> [k, H]
_SHARED = ("ln1", "b_O", "ln2", "W_in", "b_in", "b_out")
_ENDS = ("embed", "position", "cls", "w", "b")


def collapse(model: Transformer) -> Collapsed:
    """The same parameters in the column order of the collapse; `InputError` if not covered."""
    reason = why_not(model.spec)
    if reason is not None:
        raise InputError(f"model: cannot be collapsed ({reason})")
    block = model.blocks[0]
    leaves: dict[str, Any] = {name: getattr(model, name) for name in _ENDS[3:]}
    leaves |= {name: getattr(block, name) for name in (*_SHARED, "activation", "scale")}
    leaves |= {name: jnp.moveaxis(getattr(block, name), 2, 0) for name in _PER_HEAD}
    leaves |= {name: getattr(block, name).T for name in _BIASES}
    leaves |= {"W_O": jnp.swapaxes(block.W_O, 0, 1), "W_out": block.W_out.T}
    leaves["ln_final"] = model.ln_final
    # the first three by position: `cls` cannot be a keyword of a metaclass
    return Collapsed(model.embed, model.position.T, model.cls, **leaves)


def expand(params: Collapsed, spec: TransformerSpec) -> Transformer:
    """The inverse of `collapse`: the ordinary Transformer with these parameters."""
    leaves = {name: getattr(params, name) for name in _ENDS}
    leaves["position"] = params.position.T
    block = {name: getattr(params, name) for name in _SHARED if not name.startswith("ln")}
    block |= {name: jnp.moveaxis(getattr(params, name), 0, 2) for name in _PER_HEAD}
    block |= {name: getattr(params, name).T for name in _BIASES}
    block |= {"W_O": jnp.swapaxes(params.W_O, 0, 1), "W_out": params.W_out.T}
    leaves |= {f"blocks.0.{name}": leaf for name, leaf in block.items()}
    lns = {"blocks.0.ln1": params.ln1, "blocks.0.ln2": params.ln2, "ln_final": params.ln_final}
    for path, ln in lns.items():
        if ln is not None:
            leaves |= {f"{path}.gain": ln.gain, f"{path}.bias": ln.bias}
    return assemble(spec, leaves)


def projection(params: Collapsed) -> Float[Array, "k_1 H d"]:
    """W'^T = (C diag(gain) [W_V | W_K q scale])^T, the score last; q the query of [CLS]."""
    k, H, d = params.W_V.shape
    x = normalised(params.ln1, params.cls)
    q = matmul(params.W_Q.reshape(k * H, d), x, 1, 0).reshape(k, H) + params.b_Q
    U = attention_scale(k, params.scale) * jnp.sum(params.W_K * q[:, :, None], axis=0)
    W = jnp.concatenate([params.W_V, U[None, :, :]], axis=0)
    if params.ln1 is None:
        return W
    return centred(W * params.ln1.gain[None, None, :])


def cls_row(params: Collapsed, W: Array) -> Float[Array, "k_1 H"]:
    """y_* of the [CLS] token: its values and, last, its scores (without the common constant)."""
    columns, H, d = W.shape
    y = matmul(W.reshape(columns * H, d), params.cls, 1, 0).reshape(columns, H)
    return y if params.ln1 is None else inverse_deviation(params.cls) * y


def value_constant(params: Collapsed) -> Float[Array, "d"]:
    """bias^T W_V + b_V, which every value shares."""
    d, b_V = params.cls.shape[0], params.b_V.reshape(-1)
    if params.ln1 is None:
        return b_V
    return matmul(params.W_V.reshape(d, d), params.ln1.bias, 1, 0) + b_V


def _read_out(params: Collapsed, sums: Array, mu: Array, y_cls: Array) -> Float[Array, "m"]:
    """Logits from the sums [m, (k+1) H]: add [CLS], divide, W_O, residual, MLP, LN, w."""
    k, H, d = params.W_O.shape
    sums = sums.reshape(-1, k + 1, H)
    w_cls = jnp.exp(y_cls[-1] - mu)
    base = (w_cls[None, :] * y_cls[:k])[None, :, :]
    heads = (sums[:, :k] + base) / (sums[:, k:] + w_cls[None, None, :])  # [m, k, H]
    mixed = heads.reshape(-1, d) + value_constant(params)[None, :]
    x = matmul(mixed, params.W_O.reshape(d, d), 1, 0)
    x = x + (params.b_O + params.cls)[None, :]
    hidden = matmul(normalised_rows(params.ln2, x), params.W_in, 1, 0) + params.b_in[None, :]
    hidden = activated(params.activation, hidden)
    x = x + matmul(hidden, params.W_out, 1, 1) + params.b_out[None, :]
    return matmul(normalised_rows(params.ln_final, x), params.w, 1, 0) + params.b


def logits(params: Collapsed, design: Design) -> Float[Array, "m"]:
    """The logits of m examples given by their one-hot rows; differentiable in `params`."""
    W = projection(params)
    y_cls = cls_row(params, W)
    g_cls = lax.stop_gradient(y_cls[-1])
    ln = params.ln1 is not None
    sums, mu = head_sums(params.position, params.embed, W, g_cls, design, ln)
    return _read_out(params, sums, lax.stop_gradient(mu), y_cls)


class Tabulated(eqx.Module):
    """Everything of a model that does not depend on the examples (for inference)."""

    S: Float[Array, "columns A T"]
    w: Float[Array, "H A T"]
    mu: Float[Array, "H"]
    y_cls: Float[Array, "k_1 H"]


def tabulate(params: Collapsed) -> Tabulated:
    """Build the table once, to read any number of examples from it."""
    W = projection(params)
    y_cls = cls_row(params, W)
    ln = params.ln1 is not None
    S, mu, w = table(params.position, params.embed, W, y_cls[-1], ln=ln)
    return Tabulated(S=S, w=w, mu=mu, y_cls=y_cls)


def tabulated_logits(
    params: Collapsed, tabulated: Tabulated, design: Design
) -> tuple[Float[Array, "m"], Float[Array, "m H"]]:
    """Logits as `logits` gives them, and each head's total weight (the softmax denominator)."""
    sums = over_tokens(design, tabulated.S)  # [m, (k+1) H]
    H = tabulated.mu.shape[0]
    total = sums[:, -H:] + jnp.exp(tabulated.y_cls[-1] - tabulated.mu)[None, :]
    return _read_out(params, sums, tabulated.mu, tabulated.y_cls), total


def support_mass(
    params: Collapsed,
    tabulated: Tabulated,
    design: Design,
    bits: Integer[Array, "m T"],
    support: Integer[Array, "s"],
    relevant: Float[Array, "s"],
) -> tuple[Float[Array, "m"], Float[Array, "m"]]:
    """Logits, and the share of the [CLS] attention on the support, mean over heads.

    relevant: 1 for positions of `support` that count, 0 for padding.
    """
    values, total = tabulated_logits(params, tabulated, design)
    places = jnp.arange(support.shape[0])[None, :]
    chosen = tabulated.w[:, :, support][:, bits[:, support], places]  # [H, m, s]
    share = jnp.sum(chosen * relevant[None, None, :], axis=2).T / total
    return values, jnp.mean(share, axis=1)


def attention_weights(tabulated: Tabulated, bits: Integer[Array, "m T"]) -> Float[Array, "m H T_1"]:
    """Attention weights of the [CLS] query for each example and head; [CLS] itself last."""
    m, T = bits.shape
    chosen = tabulated.w[:, bits, jnp.arange(T)[None, :]]  # [H, m, T]
    w_cls = jnp.exp(tabulated.y_cls[-1] - tabulated.mu)
    w_cls = jnp.broadcast_to(w_cls[:, None, None], (w_cls.shape[0], m, 1))
    weights = jnp.concatenate([chosen, w_cls], axis=2)
    return jnp.swapaxes(weights / jnp.sum(weights, axis=2, keepdims=True), 0, 1)
