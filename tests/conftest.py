"""Strict by default: shapes and types checked at every call, no silent promotion, 64-bit on."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "Agg")

import jax
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

install_import_hook("capax", "beartype.beartype")

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile(
    "capax", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("capax")
