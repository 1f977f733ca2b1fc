"""The second statement: the float32 forward pass decides alike. It is not part of a proof file.

A proof file is about real arithmetic. In float32, with sums in any order, a trained network is
enclosed with all that its rounding adds (`capax.decompile.proof.layer_rounding`), a compiled one by
its certificate (`capax.compiler.certificate.float32`).
"""

import json
from pathlib import Path

import numpy as np

from capax.attention.checkpoint import load
from capax.boolean import SparseFunction
from capax.compiler.certificate.certificate import function_from
from capax.compiler.certificate.float32 import float32_margin as compiled_margin
from capax.compiler.proof.tables import head_tables
from capax.compiler.weights_file import is_compiled_file, load_compiled
from capax.decompile.machine.forward_error import FLOAT32
from capax.decompile.proof.branching import branch
from capax.decompile.proof.one_query_layer import layer_as_run
from capax.proving.compiled_proof import Proof

CELLS = 512


def float32_margin(weights: Path | str, proof: Proof, *, cells: int = CELLS) -> float | None:
    """At most the smallest margin in float32 for the function of a proof; None: nothing is proved.

    cells: how many cells of inputs are enclosed at most (trained networks).
    """
    header = json.loads(proof.text.split("\n", 1)[0])
    f = function_from(header["support"], header["table"], header["T"])
    if not is_compiled_file(weights):
        return _trained(weights, f, cells)
    model = load_compiled(weights).model
    found = compiled_margin(model, head_tables(model), f)
    return found.margin if found.decided else None


def _trained(weights: Path | str, f: SparseFunction, cells: int) -> float | None:
    layer = layer_as_run(load(weights)[0], FLOAT32)  # type: ignore[arg-type]
    if layer is None:
        return None
    with np.errstate(all="ignore"):  # numbers that overflow decide nothing
        least = float(branch(layer, f, most=cells).margins.min())
    return least if least > 0 else None
