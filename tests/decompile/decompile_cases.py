"""Small Transformers with any weights, and their exact logits on all inputs."""

import jax.numpy as jnp
import numpy as np

from capax.attention.transformer import Transformer, assemble, transformer_spec
from capax.decompile.proof.one_query_layer import one_query_layer
from capax.decompile.proof.table_forward import TableForward


def random_transformer(seed: int, T: int = 7, scale: float = 0.3, **fields) -> Transformer:
    """A one-layer model with random weights, biases and gains (not only at initialisation)."""
    fields = {"T": T, "d": 6, "heads": 2, "mlp_width": 5, **fields}
    spec = transformer_spec(**fields)
    rng = np.random.default_rng(seed)
    leaves = {}
    for path, shape in spec.shapes().items():
        small = path.rsplit(".", 1)[-1].startswith("b")
        values = (0.2 if small else scale) * rng.standard_normal(shape)
        values = values + 1.0 if path.endswith("gain") else values
        leaves[path] = jnp.asarray(values, jnp.float32)
    return assemble(spec, leaves)


def all_inputs(T: int) -> np.ndarray:
    return (np.arange(1 << T)[:, None] >> np.arange(T) & 1).astype(np.uint8)


def logits_of(model: Transformer, X: np.ndarray) -> np.ndarray:
    """float64 logits from the tables."""
    forward = TableForward(one_query_layer(model))
    return forward.logits(forward.sums(X.astype(np.int64)))
