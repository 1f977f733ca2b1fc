"""Checkpoints: what was saved comes back; everything else is refused in one line."""

import json
from dataclasses import dataclass
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from capax.attention import (
    AttentionLayer,
    BagOfVectors,
    BilinearScore,
    ClsMLP,
    ClsScalar,
    DeterministicPositions,
    Entmax,
    Head,
    IncoherentCodes,
    Linear,
    PaperBlock,
    PaperStack,
    Softmax,
    TopK,
    TrainablePositions,
    TransformerSpec,
    assemble,
    load,
    save,
)
from capax.errors import InputError

T, d = 5, 3
BITS = np.array([1, 0, 1, 1, 0])


def draw(*shape, dtype=np.float64):
    return jnp.asarray(np.random.default_rng(shape).normal(size=shape).astype(dtype))


def cls_scalar(encoding, **options):
    n = encoding.d
    return ClsScalar(encoding, draw(n, 2), draw(n, 2), draw(n, 4), draw(4, 7), draw(7), **options)


@cache
def modules():
    trainable = TrainablePositions(draw(2, d), draw(T, d), draw(d))
    n = T + 3
    block = PaperBlock(draw(n, 2), draw(n, 2), draw(n, 4), draw(4, d), norm=TopK(2))
    spec = TransformerSpec(T=T, d=6, heads=2, layers=2, mlp_width=7)
    return {
        "scalar": cls_scalar(DeterministicPositions(T), activation="gelu", norm=Entmax(1.25)),
        "scalar, trainable": cls_scalar(trainable, scale="sqrt"),
        "scalar, bag": cls_scalar(BagOfVectors(draw(T, d), draw(d)), norm=Softmax(0.5)),
        "scalar, codes": cls_scalar(IncoherentCodes(T, 11, jax.random.key(0), dtype=jnp.float64)),
        "mlp": ClsMLP(
            trainable, draw(d, 2), draw(d, 2), draw(d, 4), draw(4, 7), draw(7), draw(7), draw()
        ),
        "stack": PaperStack(DeterministicPositions(T), (block,), draw(d)),
        "layer": AttentionLayer(draw(2, d, 4), draw(2, d, 4), draw(2, d, 7), draw(2, 7, d)),
        "head": Head(BilinearScore(draw(d, d)), Softmax(), Linear(draw(d, 4)), Linear(draw(4, 2))),
        "transformer": assemble(
            spec, {p: draw(*shape, dtype=np.float32) for p, shape in spec.shapes().items()}
        ),
    }


NAMES = (
    "scalar",
    "scalar, trainable",
    "scalar, bag",
    "scalar, codes",
    "mlp",
    "stack",
    "layer",
    "head",
    "transformer",
)


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name, tmp_path):
    module = modules()[name]
    path = save(tmp_path / "m.safetensors", module, {"run": 7, "note": "Ünïcode", "x": [1, None]})
    again, metadata = load(path)
    assert jax.tree.structure(module) == jax.tree.structure(again)
    for a, b in zip(jax.tree.leaves(module), jax.tree.leaves(again), strict=True):
        assert (type(a), a.dtype) == (type(b), b.dtype)
        np.testing.assert_array_equal(a, b)
    assert metadata == {"run": 7, "note": "Ünïcode", "x": [1, None]}
    if name == "transformer":
        run = eqx.filter_jit(lambda model: model(BITS))
        assert float(run(module)) == float(run(again))


def test_arrays_are_stored_under_their_paths(tmp_path):
    path = save(tmp_path / "m.safetensors", modules()["transformer"])
    with safe_open(path, framework="np") as file:
        names = set(file.keys())
    assert {"embed", "blocks.0.W_Q", "blocks.1.ln2.gain", "ln_final.bias", "b"} <= names


def test_dtype_can_be_chosen(tmp_path):
    path = save(tmp_path / "m.safetensors", modules()["scalar"])
    narrow, _ = load(path, dtype=jnp.float32)
    assert narrow.W_Q.dtype == jnp.float32


def test_float64_is_never_narrowed_silently(tmp_path, warm_commands):
    save(tmp_path / "m.safetensors", modules()["layer"])
    code = (
        "from capax.attention import load\n"
        "try: load('m.safetensors')\n"
        "except ValueError as e: print(e)\n"
        "print(load('m.safetensors', dtype='float32')[0].W_Q.dtype)"
    )
    done = warm_commands.python(code, tmp_path)
    first, second = done.stdout.splitlines()
    assert ": wanted jax_enable_x64 for float64, or dtype=float32" in first
    assert second == "float32"


@dataclass
class File:
    arrays: dict
    content: dict
    header: dict


def opened(path):
    with safe_open(path, framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


def tampered(tmp_path, change, name="scalar"):
    """Save a module, change arrays and header in place, write the file again."""
    path = save(tmp_path / "m.safetensors", modules()[name], {"run": 7})
    arrays, header = opened(path)
    file = File(arrays, json.loads(header["capax"]), header)
    change(file)
    header["capax"] = json.dumps(file.content)
    save_file(arrays, path, metadata=header)
    return path


def wrong_shape(file):
    file.arrays["W_V"] = np.zeros((2, 2))


def missing(file):
    del file.arrays["W_V"]


def extra(file):
    file.arrays["intruder"] = np.zeros(3)


def wrong_dtype(file):
    file.arrays["W_V"] = file.arrays["W_V"].astype(np.float32)


def changed_value(file):
    file.arrays["W_V"] = file.arrays["W_V"] + 1e-9


def changed_metadata(file):
    file.content["metadata"]["run"] = 8


def unknown_kind(file):
    file.content["module"]["kind"] = "os.system"


def unknown_field(file):
    file.content["module"]["fields"]["colour"] = {"value": 1}


def unknown_activation(file):
    file.content["module"]["fields"]["activation"] = {"value": "swish"}


def consistent_wrong_shape(file):
    file.arrays["W_C"] = np.zeros((5, 7))
    file.content["module"]["fields"]["W_C"]["shape"] = [5, 7]


def norm_is_a_string(file):
    file.content["module"]["fields"]["norm"] = {"value": "softmax"}


def no_module(file):
    del file.content["module"]


def module_is_a_list(file):
    file.content["module"] = [1, 2]


def module_is_a_value(file):
    file.content["module"] = {"value": 3}
    file.arrays.clear()


def integer_dtype(file):
    file.content["module"]["fields"]["W_V"]["dtype"] = "int32"


def other_format(file):
    file.header["format"] = "somebody-else-3"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (wrong_shape, "W_V: wanted shape (8, 4), got (2, 2)"),
        (missing, "W_V: wanted a float64 array of shape (8, 4)"),
        (extra, "intruder: wanted only arrays of the module"),
        (wrong_dtype, "W_V: wanted dtype float64, got 'float32'"),
        (changed_value, "wanted the content that was saved"),
        (changed_metadata, "wanted the content that was saved"),
        (unknown_kind, "module: wanted a kind among"),
        (unknown_field, "fields: wanted"),
        (unknown_activation, "activation: wanted one of"),
        (consistent_wrong_shape, "do not fit together"),
        (norm_is_a_string, "norm"),
        (no_module, "the header is damaged"),
        (module_is_a_list, "structure: wanted a JSON object"),
        (module_is_a_value, "structure: wanted a module"),
        (integer_dtype, "W_V: wanted a dtype among"),
        (other_format, "wanted a Capax checkpoint"),
    ],
)
def test_tampering_is_named(change, said, tmp_path):
    path = tampered(tmp_path, change)
    with pytest.raises(InputError) as caught:
        load(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_transformer_leaves_are_named(tmp_path):
    def change(file):
        file.arrays["blocks.1.W_in"] = file.arrays["blocks.1.W_in"][:, :-1].copy()

    path = tampered(tmp_path, change, "transformer")
    with pytest.raises(InputError, match=r"blocks\.1\.W_in: wanted shape \(6, 7\), got \(6, 6\)"):
        load(path)


def test_transformer_spec_is_validated(tmp_path):
    def change(file):
        file.content["module"]["spec"]["heads"] = 5

    with pytest.raises(InputError, match="heads: wanted a divisor"):
        load(tampered(tmp_path, change, "transformer"))


@pytest.fixture(scope="module")
def saved_layer(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "m.safetensors"
    return path, save(path, modules()["layer"], {"run": 7}).read_bytes()


@settings(max_examples=60)
@given(cut=st.floats(0, 1), position=st.floats(0, 1), flip=st.integers(1, 255))
def test_damaged_files_never_give_another_module(saved_layer, cut, position, flip):
    """A shortened file is refused; so is a changed byte, unless it only changes blank padding."""
    path, whole = saved_layer
    path.write_bytes(whole[: int(cut * (len(whole) - 1))])
    with pytest.raises(InputError, match=r"^[^\n]*$"):
        load(path)
    damaged = bytearray(whole)
    damaged[int(position * (len(whole) - 1))] ^= flip
    path.write_bytes(bytes(damaged))
    try:
        module, metadata = load(path)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert eqx.tree_equal(module, modules()["layer"]) and metadata == {"run": 7}


def test_files_that_are_no_checkpoints(tmp_path):
    with pytest.raises(InputError, match="file not found"):
        load(tmp_path / "absent.safetensors")
    (tmp_path / "text").write_text("hello, this is not a checkpoint at all")
    with pytest.raises(InputError, match="not readable as a checkpoint"):
        load(tmp_path / "text")


def test_what_cannot_be_saved(tmp_path):
    target = tmp_path / "m.safetensors"
    own = Head(lambda X, z: X @ z, Softmax(), Linear(draw(d, 4)), Linear(draw(4, 2)))
    with pytest.raises(InputError, match="score: wanted an array, a module or a plain value"):
        save(target, own)
    with pytest.raises(InputError, match="module: wanted a module of a kind"):
        save(target, eqx.nn.Linear(2, 3, key=jax.random.key(0)))
    with pytest.raises(InputError, match="metadata: wanted plain JSON values"):
        save(target, modules()["layer"], {"f": {1, 2}})
    with pytest.raises(InputError, match="folder"):
        save(tmp_path / "no" / "m.safetensors", modules()["layer"])
    many = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), modules()["transformer"])
    with pytest.raises(InputError, match="embed: wanted shape"):
        save(target, many)
    assert not target.exists()
