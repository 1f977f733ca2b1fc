"""A bound for a file: Capax checkpoints by their type, GPT-2 and BERT files by their names."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open

from capax.attention.checkpoint import FORMAT, load
from capax.capacity.bound import Bound
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
    margin: float = 1.0,
    delta: float = 0.05,
    target: float | None = None,
    data: Path | str | None = None,
) -> tuple[Certificate, Measured]:
    """A Capax checkpoint: with data from its true margins, without it for an assumed margin."""
    with jax.enable_x64(True):
        module, _ = load(path)
        measured = measure(module)
        if data is not None:
            X, y = read_data(data)
            margins = [float(u) for u in margins_of(module, X, y)]
            return certify_margins(measured, margins, delta=delta, target=target), measured
    cls, grid = measured.rounded()
    sample = measured.sample(m)
    entries = tuple(
        bound(cls, sample, margin, delta / 2, cost=grid.cost, target=target)
        for bound in (margin_bound, realizable_bound)
    )
    return _best(entries, delta), measured


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
    best = min(entries, key=lambda entry: entry.log_value)
    return Certificate(best, entries, delta, math.log(len(entries)))
