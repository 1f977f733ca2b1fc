"""Compiled networks under TransformerLens names, as a residual Transformer that needs no extra
code.

Tokens: 0, 1 and [CLS] = 2, the last of T+1 positions. The residual stream gets k fresh dimensions
for the head output and one for the answer, where the embeddings are zero, so that the residual
connections do not change the numbers that are read:

    W_E [3, d_model], W_pos [T+1, d_model], W_Q, W_K, W_V [1, d_model, d_head],
    W_O [1, d_head, d_model] writes the head output into the fresh dimensions (scalar read-out:
    W_C w into the answer), W_in [d_model, n], W_out [n, d_model] read and write them,
    W_U [d_model, 1] reads the answer. d_model = d + d_head + 1, d_head = k.

Settings: one layer, one head, causal mask (the [CLS] query is last, so it sees everything), no
LayerNorm, ReLU, scores divided by sqrt(d_head): W_Q carries sqrt(d_head). The bag of vectors has no
such form (x_t = b_t v_t is a product, not a sum of symbol and position) and is refused.
"""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from capax.attention import (
    ClsMLP,
    ClsScalar,
    DeterministicPositions,
    IncoherentCodes,
    TrainablePositions,
    Transformer,
)
from capax.compiler.compiling import Compiled
from capax.compiler.construction.assemble import Model, assemble
from capax.compiler.proof.tables import alphabet_of
from capax.compiler.trained_lens import trained_to_lens
from capax.errors import InfeasibleError, InputError, require
from capax.files import write_atomically
from capax.reading import existing

FORMAT = "capax-transformer-lens-1"

State = dict[str, np.ndarray]
MAX_ENTRIES = 1 << 28
ATTENTION, MLP = "blocks.0.attn.", "blocks.0.mlp."


def to_transformer_lens(model: Model | Transformer) -> tuple[dict[str, Any], State]:
    """(settings, arrays) of a HookedTransformer that computes the same number.

    Trained Transformers of any depth keep their arrays; compiled networks give float64.

    Raises `InputError` for the bag of vectors, `InfeasibleError` when the dense embeddings would
    be larger than 2 GiB (deterministic positions need (T+1)(T+k+4) numbers).
    """
    if isinstance(model, Transformer):
        return trained_to_lens(model)
    require(alphabet_of(model) == 2, "alphabet", "2 (bits)", alphabet_of(model))
    symbols, positions = _embeddings(model)
    d, k = model.encoding.d, _head_width(model)
    wide = d + k + 1
    state = {
        "embed.W_E": _padded(symbols, 3, wide),
        "pos_embed.W_pos": _padded(positions, model.T + 1, wide),
        f"{ATTENTION}W_Q": _padded(_double(model.W_Q), wide, k)[None] * np.sqrt(k),
        f"{ATTENTION}W_K": _padded(_double(model.W_K), wide, k)[None],
        f"{ATTENTION}W_V": _padded(_double(model.W_V), wide, k)[None],
        **{f"{ATTENTION}b_{name}": np.zeros((1, k)) for name in "QKV"},
        f"{ATTENTION}b_O": np.zeros(wide),
        "unembed.W_U": _unit(wide, wide - 1)[:, None],
        "unembed.b_U": np.zeros(1),
        **_readout_state(model, d, k, wide),
    }
    return _settings(model, wide), state


def from_transformer_lens(settings: dict[str, Any], state: State) -> Model:
    """The model back, with trainable-position embeddings that equal the exported ones.

    Raises `InputError` when arrays are missing or their shapes do not fit the settings.
    """
    try:
        k, wide = settings["d_head"], settings["d_model"]
        d = wide - k - 1
        W_E, W_pos = state["embed.W_E"][:, :d], state["pos_embed.W_pos"][:, :d]
        head = {name: state[f"{ATTENTION}{name}"][0][:d] for name in ("W_Q", "W_K", "W_V")}
        head["W_Q"] = head["W_Q"] / np.sqrt(k)
        rest = _readout_arrays(settings, state, d, k)
    except (KeyError, IndexError, TypeError) as error:
        raise InputError(
            f"state: wanted TransformerLens arrays of a compiled network, got no {error}"
        ) from None
    require(W_E.shape == (3, d), "embed.W_E", f"shape (3, {wide})", state["embed.W_E"].shape)
    with jax.enable_x64(True):
        E, P, v = jax.device_put((W_E[:2], W_pos[:-1], W_E[2] + W_pos[-1]))
        arrays = jax.device_put({**head, **rest})
    kind = ClsScalar if settings["attn_only"] else ClsMLP
    return kind(encoding=TrainablePositions(E, P, v), **arrays)  # type: ignore[arg-type]


def _embeddings(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Rows for the symbols 0, 1, [CLS], and for the T+1 positions."""
    code, T = model.encoding, model.T
    entries = (T + 1) * (code.d + model.W_V.shape[1] + 1)
    if entries > MAX_ENTRIES:
        raise InfeasibleError(
            f"T: the dense embeddings for T = {T} and width {code.d} need "
            f"{entries * 8 / 2**30:.0f} GiB (limit 2); use the encoding trainable"
        )
    if isinstance(code, DeterministicPositions):
        basis = np.eye(T + 3)
        symbols, P = basis[[T, T + 1, T + 2]], basis[:T]
    elif isinstance(code, IncoherentCodes):
        rows = _double(code.codes)
        symbols, P = rows[T:], rows[:T]
    else:
        ours = isinstance(code, TrainablePositions)
        require(
            ours, "encoding", "symbol plus position (the bag is a product)", type(code).__name__
        )
        symbols = np.concatenate([_double(code.E), _double(code.v_CLS)[None]])  # type: ignore[union-attr]
        P = _double(code.P)  # type: ignore[union-attr]
    return symbols, np.concatenate([P, np.zeros((1, code.d))])


def _readout_state(model: Model, d: int, k: int, wide: int) -> State:
    """W_O and, with an MLP, W_in, b_in, W_out, b_out, in the fresh dimensions d..d+k."""
    W_O, used = np.zeros((1, k, wide)), model.W_V.shape[1]
    if isinstance(model, ClsScalar):
        W_O[0, :used, -1] = _double(model.W_C) @ _double(model.w)
        return {f"{ATTENTION}W_O": W_O}
    n = model.b_1.size
    W_O[0, :, d : d + k] = np.eye(k)
    W_in, W_out = np.zeros((wide, n)), np.zeros((n, wide))
    W_in[d : d + used], W_out[:, -1] = _double(model.W_1), _double(model.w_2)
    b_out = _unit(wide, wide - 1) * float(model.b_2)
    names = {"W_in": W_in, "b_in": _double(model.b_1), "W_out": W_out, "b_out": b_out}
    return {f"{ATTENTION}W_O": W_O, **{MLP + name: M for name, M in names.items()}}


def _readout_arrays(settings: dict[str, Any], state: State, d: int, k: int) -> State:
    W_O = state[f"{ATTENTION}W_O"][0]
    if settings["attn_only"]:
        return {"W_C": W_O[:, -1:], "w": np.ones(1)}
    return {
        "W_1": W_O[:, d : d + k] @ state[f"{MLP}W_in"][d : d + k],
        "b_1": state[f"{MLP}b_in"],
        "w_2": state[f"{MLP}W_out"][:, -1],
        "b_2": np.asarray(state[f"{MLP}b_out"][-1]),
    }


def _settings(model: Model, wide: int) -> dict[str, Any]:
    """The fields of a HookedTransformerConfig."""
    scalar = isinstance(model, ClsScalar)
    return {
        "n_layers": 1,
        "n_heads": 1,
        "d_model": wide,
        "d_head": _head_width(model),
        "d_mlp": 0 if scalar else model.b_1.size,
        "n_ctx": model.T + 1,
        "d_vocab": 3,
        "d_vocab_out": 1,
        "act_fn": "relu",
        "attn_only": scalar,
        "normalization_type": None,
        "attention_dir": "causal",
    }


def _head_width(model: Model) -> int:
    """d_head: TransformerLens has one width for queries, keys and values."""
    return max(model.W_Q.shape[1], model.W_V.shape[1])


def _padded(M: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """M in the upper left corner of zeros."""
    wide = np.zeros((rows, columns))
    wide[: M.shape[0], : M.shape[1]] = M
    return wide


def _unit(size: int, index: int) -> np.ndarray:
    return np.eye(1, size, index)[0]


def _double(M: Any) -> np.ndarray:
    return np.asarray(M, dtype=np.float64)


def save_transformer_lens(path: Path | str, compiled: Compiled) -> Path:
    """Write the arrays to a safetensors file, the settings as JSON in its metadata."""
    settings, state = to_transformer_lens(assemble(compiled.construction, np.float64))
    header = {"format": FORMAT, "settings": json.dumps(settings)}
    content = to_safetensors(state, metadata=header)
    return write_atomically(path, lambda file: file.write(content))


def load_transformer_lens(path: Path | str) -> Model:
    """The model of such a file. Raises `InputError` for other files."""
    try:
        with safe_open(str(existing(path, "a weights file")), framework="np") as file:
            header = file.metadata() or {}
            ours = header.get("format") == FORMAT
            require(ours, str(path), "a file written by capax compile --transformer-lens", header)
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a readable weights file ({error})") from None
    return from_transformer_lens(json.loads(header["settings"]), state)
