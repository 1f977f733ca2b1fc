"""Proof files of networks of both kinds: compiled ones, and trained one-layer Transformers."""

from pathlib import Path

from capax.boolean import SparseFunction
from capax.compiler.weights_file import is_compiled_file
from capax.errors import require
from capax.proving.compiled_proof import Proof, prove_compiled
from capax.proving.trained_proof import CELLS, prove_trained


def prove(
    weights: Path | str, function: SparseFunction | None = None, *, cells: int = CELLS
) -> Proof:
    """The proof that a network decides as its function on all inputs, for others to check.

    weights: a file of `capax compile`, whose function it names, or a trained one-layer Transformer.
    function: of a trained network; default: the one that `capax.decompile` reads off it. cells: how
    many cells of inputs are tried at most. Raises `InputError` if there is no proof: the network
    may be wrong on some input, or the proof needs more cells.

    Examples:
        >>> import capax, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "and.safetensors"
        >>> _ = capax.compiler.save_compiled(path, capax.compile("x0 & x2", T=5))
        >>> capax.prove(path).statement[:19]
        'On all 2^5 inputs t'
    """
    if is_compiled_file(weights):
        wanted = "no function: the file of a compiled network names its own"
        require(function is None, "function", wanted, function)
        return prove_compiled(weights)
    return prove_trained(weights, function, cells=cells)
