"""Oracles as programs that are not optimised: they run for milliseconds and compile for seconds."""

from collections.abc import Callable
from typing import Any

import jax


def plain_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` without LLVM's optimisations, in about half the time; on a GPU as it comes."""
    if jax.config.jax_platforms != "cpu":  # to ask for the backend would start it
        return jax.jit(function)
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})
