"""A bound for a file: Capax checkpoints by their type, GPT-2 and BERT files by their names."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open

from capax.attention.checkpoint import FORMAT, load
from capax.attention.head import Head
from capax.attention.layer import AttentionLayer
from capax.capacity.bound import Bound, best_of
from capax.capacity.certificates.certificate import Certificate, certify_margins, margins_of
from capax.capacity.certificates.margin_bounds import margin_bound, realizable_bound
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.checkpoint_norms import (
    checkpoint_blocks,
    head_table,
    read_tensors,
    whole_network,
)
from capax.capacity.weights.measured import Measured
from capax.capacity.weights.model_bounds import measure
from capax.errors import InputError, require


def is_capax_checkpoint(path: Path | str) -> bool:
    """Whether the header of a safetensors file carries our format mark."""
    require(Path(path).is_file(), str(path), "a safetensors file", "nothing there")
    try:
        with safe_open(str(path), framework="np") as file:
            return (file.metadata() or {}).get("format") == FORMAT
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or ["unreadable"])[0][:100]
        raise InputError(f"{path}: not a readable safetensors file ({reason})") from None


def read_data(path: Path | str) -> tuple[np.ndarray, np.ndarray]:
    """X [m, T] and y [m] from an .npz file with arrays of these names."""
    require(Path(path).is_file(), str(path), "an .npz file with X and y", "nothing there")
    try:
        with np.load(path, allow_pickle=False) as file:
            return np.asarray(file["X"]), np.asarray(file["y"])
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: wanted an .npz file with arrays X and y ({error})") from None


def model_certificate(
    path: Path | str,
    *,
    m: int,
    T: int | None = None,
    B_X: float | None = None,
    margin: float = 1.0,
    delta: float = 0.05,
    target: float | None = None,
    data: Path | str | None = None,
) -> tuple[Certificate | Bound, Measured, Sample]:
    """A Capax checkpoint: with data from its true margins, without it for an assumed margin.

    T, B_X: context length and token length, where the module has no encoding that fixes them. A
    module whose output is a vector has no margin: the answer is then its cover at margin / 2.
    """
    with jax.enable_x64(True):
        module, _ = load(path)
        measured = measured_module(module, B_X)
        sample = measured.sample(m, T)
        if data is not None:
            X, y = read_data(data)
            require(measured.exact().scalar, "--data", _ONE_NUMBER, measured.kind)
            margins = [float(u) for u in margins_of(module, X, y)]
            certificate = certify_margins(measured, margins, delta=delta, target=target)
            return certificate, measured, sample
    if not measured.exact().scalar:
        return measured.exact().cover(sample, margin / 2), measured, sample
    cls, grid = measured.rounded()
    entries = tuple(
        bound(cls, sample, margin, delta / 2, cost=grid.cost, target=target)
        for bound in (margin_bound, realizable_bound)
    )
    return _best(entries, delta), measured, sample


_ONE_NUMBER = "a model with one number per sequence"


def measured_module(module: Any, B_X: float | None) -> Measured:
    """`measure`, with the token length asked for exactly where the module does not fix it."""
    open_ended = isinstance(module, AttentionLayer | Head)
    if not open_ended:
        name = type(module).__name__
        require(B_X is None, "--B_X", f"none ({name} has its own encoding)", B_X)
        return measure(module)
    wanted = "the length of the longest token or query (this module has no encoding)"
    if B_X is None:
        raise InputError(f"--B_X: wanted {wanted}, got nothing")
    return measure(module, B_X=B_X)


def foreign_certificate(
    path: Path | str,
    *,
    m: int,
    T: int,
    heads: int | None = None,
    margin: float = 1.0,
    delta: float = 0.05,
    target: float | None = None,
) -> tuple[Certificate, list[dict[str, Any]]]:
    """A GPT-2 or BERT file: Theorem 4.7 (LN) for a unit read-out, and one row per head."""
    blocks = checkpoint_blocks(read_tensors(path), heads)
    sample = Sample(m, T)
    rows = [asdict(row) for row in head_table(blocks, sample)]
    network, share = whole_network(blocks), delta / 2
    return _best(
        (
            margin_bound(network, sample, margin, share),
            realizable_bound(network, sample, margin, share, target=target),
        ),
        delta,
    ), rows


def _best(entries: tuple[Bound, ...], delta: float) -> Certificate:
    return Certificate(best_of(entries), entries, delta, math.log(len(entries)))
