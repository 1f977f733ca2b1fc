"""The practical Transformer of the experiments: embeddings, pre-LN blocks, [CLS] logit.

x_t = embed[b_t] + position_t,  x_CLS = cls (last row),  logit = w . LN(x_CLS) + b
"""

import math
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from capax.attention.block import Block, LayerNorm, normalised
from capax.attention.encodings import as_bits
from capax.attention.parts.activations import ACTIVATIONS
from capax.attention.parts.masks import keep_cls
from capax.attention.parts.normalizers import NORMALIZERS, normalizer
from capax.attention.parts.scores import ScaleRule
from capax.attention.parts.tokens import Bits
from capax.errors import InputError, require, shown

Shapes = dict[str, tuple[int, ...]]


class TransformerSpec(BaseModel):
    """Everything that determines a practical Transformer except its random key.

    T context length without [CLS]; d width; `heads` H of width k = d / H; `layers` L;
    `mlp_width` hidden units of each MLP; `alphabet` symbols; `init_scale` standard deviation of
    every weight, embedding and position at initialisation (biases 0, gains 1).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    T: int = Field(ge=1)
    d: int = Field(default=64, ge=1)
    heads: int = Field(default=16, ge=1)
    layers: int = Field(default=1, ge=1)
    mlp_width: int = Field(default=256, ge=1)
    alphabet: int = Field(default=2, ge=2)
    activation: str = "gelu"
    layer_norm: bool = True
    positions: Literal["trainable"] = "trainable"
    init_scale: float = Field(default=0.02, gt=0, allow_inf_nan=False)
    normalizer: str = "softmax"
    scale: ScaleRule = "sqrt"

    @field_validator("activation", "normalizer")
    @classmethod
    def _known_name(cls, name: str, info: Any) -> str:
        known = ACTIVATIONS if info.field_name == "activation" else NORMALIZERS
        if name not in known:
            raise ValueError(f"wanted one of {', '.join(known)}")
        return name

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "TransformerSpec":
        if self.d % self.heads:
            raise ValueError(f"heads: wanted a divisor of d = {self.d}, got {self.heads}")
        return self

    @property
    def head_width(self) -> int:
        """k = d / H."""
        return self.d // self.heads

    def shapes(self) -> Shapes:
        """Path -> shape of every parameter, in a fixed order."""
        d, n, H, k = self.d, self.mlp_width, self.heads, self.head_width
        ln: Shapes = {"gain": (d,), "bias": (d,)} if self.layer_norm else {}
        qkv = {"W_Q": (H, d, k), "W_K": (H, d, k), "W_V": (H, d, k)}
        biases = {"b_Q": (H, k), "b_K": (H, k), "b_V": (H, k)}
        output = {"W_O": (H, k, d), "b_O": (d,)}
        mlp = {"W_in": (d, n), "b_in": (n,), "W_out": (n, d), "b_out": (d,)}
        block = {**_under("ln1", ln), **qkv, **biases, **output, **_under("ln2", ln), **mlp}
        shapes: Shapes = {"embed": (self.alphabet, d), "position": (self.T, d), "cls": (d,)}
        for layer in range(self.layers):
            shapes |= _under(f"blocks.{layer}", block)
        return {**shapes, **_under("ln_final", ln), "w": (d,), "b": ()}


class Transformer(eqx.Module):
    """A pre-LN Transformer with a [CLS] read-out; `Transformer.init` draws one from its spec."""

    embed: Float[Array, "A d"]
    position: Float[Array, "T d"]
    cls: Float[Array, "d"]
    blocks: tuple[Block, ...]
    ln_final: LayerNorm | None
    w: Float[Array, "d"]
    b: Float[Array, ""]
    spec: TransformerSpec = eqx.field(static=True)

    @staticmethod
    def init(
        spec: TransformerSpec, *, key: PRNGKeyArray | Array, dtype: Any = jnp.float32
    ) -> "Transformer":
        """Weights, embeddings, positions ~ N(0, init_scale^2); biases 0; gains 1."""
        return assemble(spec, _initial_leaves(spec, key, dtype))

    @property
    def threshold(self) -> float:
        """An output above it is the decision 1."""
        return 0.0

    def tokens(self, bits: Bits) -> Float[Array, "T_1 d"]:
        """embed[b_t] + position_t, and the [CLS] vector last."""
        symbols = as_bits(bits, self.spec.T, self.spec.alphabet)
        return jnp.concatenate([self.embed[symbols] + self.position, self.cls[None, :]])

    def __call__(
        self, bits: Bits, *, mask: Bool[Array, "T"] | None = None, return_weights: bool = False
    ) -> Float[Array, ""] | tuple[Float[Array, ""], list[Float[Array, "H T_1"]]]:
        """The logit of one sequence; with weights: those of the [CLS] query, layer by layer."""
        x, keep = self.tokens(bits), keep_cls(mask)
        seen = []
        for block in self.blocks[:-1]:
            x, weights = block(x, x, keep)
            seen.append(weights[:, -1])
        row, weights = self.blocks[-1](x[-1:], x, keep)  # only [CLS] is read
        logit = normalised(self.ln_final, row[0]) @ self.w + self.b
        return (logit, [*seen, weights[:, 0]]) if return_weights else logit


def assemble(spec: TransformerSpec, leaves: dict[str, Array]) -> Transformer:
    """The Transformer of `spec` with the given parameters, checked path by path."""
    for path, shape in spec.shapes().items():
        require(path in leaves, path, f"an array of shape {shape}", None)
        require(leaves[path].shape == shape, path, f"shape {shape}", leaves[path].shape)
    blocks = tuple(_block(spec, _within(leaves, f"blocks.{i}.")) for i in range(spec.layers))
    ends = (leaves["embed"], leaves["position"], leaves["cls"])
    return Transformer(*ends, blocks, _ln(leaves, "ln_final"), leaves["w"], leaves["b"], spec)


@partial(jax.jit, static_argnums=(0, 2))
def _initial_leaves(spec: TransformerSpec, key: Array, dtype: Any) -> dict[str, Array]:
    """All random numbers in ONE draw, cut into the parameters in the order of `shapes()`.

    One draw per parameter would compile the generator about twenty times.
    """
    shapes = spec.shapes()
    sizes = [math.prod(shape) for path, shape in shapes.items() if _is_weight(path)]
    drawn = jnp.asarray(spec.init_scale, dtype) * jax.random.normal(key, (sum(sizes),), dtype)
    pieces = iter(jnp.split(drawn, np.cumsum(sizes)[:-1]))
    leaves = {}
    for path, shape in shapes.items():
        if _is_weight(path):
            leaves[path] = next(pieces).reshape(shape)
        else:
            leaves[path] = jnp.full(shape, 1.0 if path.endswith("gain") else 0.0, dtype)
    return leaves


def parameters(model: Transformer) -> dict[str, Array]:
    """Path -> array of every parameter, in the order of `spec.shapes()`; undoes `assemble`."""
    return {path: _at(model, path.split(".")) for path in model.spec.shapes()}


def transformer_spec(**fields: Any) -> TransformerSpec:
    """`TransformerSpec(**fields)` with errors in one line (`InputError`)."""
    try:
        return TransformerSpec(**fields)
    except ValidationError as error:
        raise InputError(_explain(error)) from None


def _explain(error: ValidationError) -> str:
    """The first error in one line, with the nearest field for a name that does not exist."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        near = get_close_matches(where, TransformerSpec.model_fields, n=1)
        hint = f"did you mean {near[0]}?" if near else "see TransformerSpec"
        return f"{where}: not a field of a Transformer; {hint}"
    reason = first["msg"].removeprefix("Value error, ")
    return f"{where}: {reason}, got {shown(first['input'])}" if where else reason


def _at(node: Any, parts: list[str]) -> Any:
    for part in parts:
        node = node[int(part)] if part.isdigit() else getattr(node, part)
    return node


def _block(spec: TransformerSpec, leaves: dict[str, Array]) -> Block:
    weights = {name: leaves[name] for name in leaves if not name.startswith("ln")}
    return Block(
        **weights,
        ln1=_ln(leaves, "ln1"),
        ln2=_ln(leaves, "ln2"),
        activation=spec.activation,
        norm=normalizer(spec.normalizer),
        scale=spec.scale,
    )


def _ln(leaves: dict[str, Array], name: str) -> LayerNorm | None:
    if f"{name}.gain" not in leaves:
        return None
    return LayerNorm(leaves[f"{name}.gain"], leaves[f"{name}.bias"])


def _is_weight(path: str) -> bool:
    name = path.rsplit(".", 1)[-1]
    return name in ("embed", "position", "cls", "w") or name.startswith("W_")


def _under(prefix: str, shapes: Shapes) -> Shapes:
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}


def _within(leaves: dict[str, Array], prefix: str) -> dict[str, Array]:
    return {p.removeprefix(prefix): leaf for p, leaf in leaves.items() if p.startswith(prefix)}
