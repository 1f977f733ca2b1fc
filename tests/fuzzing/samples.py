"""Good files of every kind, small: what cases begin with before they are bent. Made once."""

import functools
import io
import json
import tempfile
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np


@functools.cache
def weight_files() -> dict[str, bytes]:
    """Compiled networks of three kinds, a random Transformer, GPT-2 and BERT."""
    import jax

    from capax.attention.checkpoint import save
    from capax.attention.transformer import Transformer, transformer_spec
    from capax.compiler import compile, save_compiled

    made = {}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.safetensors"
        for label, formula in (("scalar", "x0 & x2"), ("mlp", "x1 ^ x3")):
            made[label] = save_compiled(path, compile(formula, 5)).read_bytes()
        made["bag"] = save_compiled(path, compile("maj3", 7, encoding="bag")).read_bytes()
        with jax.enable_x64(True):
            spec = transformer_spec(T=5, d=4, heads=2, mlp_width=3)
            model = Transformer.init(spec, key=jax.random.key(0))
        task = {"function": "and2", "T": 5, "m": 20, "validation_size": 30}
        made["transformer"] = save(path, model, {"spec": {"task": task}}).read_bytes()
    return made | {"gpt2": _gpt2(), "bert": _bert()}


def _gpt2(d: int = 4) -> bytes:
    from safetensors.numpy import save

    rng = np.random.default_rng(0)
    at = "h.0."
    shapes = {"attn.c_attn.weight": (d, 3 * d), "attn.c_attn.bias": (3 * d,),
              "attn.c_proj.weight": (d, d), "attn.c_proj.bias": (d,), "mlp.c_fc.weight": (d, 6),
              "mlp.c_fc.bias": (6,), "mlp.c_proj.weight": (6, d), "mlp.c_proj.bias": (d,),
              "ln_1.weight": (d,), "ln_1.bias": (d,), "ln_2.weight": (d,),
              "ln_2.bias": (d,)}  # fmt: skip
    arrays = {at + name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    arrays["wte.weight"], arrays["wpe.weight"] = np.ones((9, d), "f4"), np.ones((8, d), "f4")
    return save(arrays)


def _bert(d: int = 4) -> bytes:
    from safetensors.numpy import save

    rng = np.random.default_rng(1)
    at = "encoder.layer.0."
    names = [f"{at}attention.self.{name}" for name in ("query", "key", "value")]
    shapes = dict.fromkeys([*names, f"{at}attention.output.dense"], (d, d))
    shapes |= {f"{at}intermediate.dense": (6, d), f"{at}output.dense": (d, 6)}
    arrays = {}
    for name, shape in shapes.items():
        arrays[f"{name}.weight"] = rng.normal(size=shape).astype("f4")
        arrays[f"{name}.bias"] = rng.normal(size=shape[:1]).astype("f4")
    for name in (
        "embeddings.LayerNorm",
        f"{at}attention.output.LayerNorm",
        f"{at}output.LayerNorm",
    ):
        arrays |= {f"{name}.weight": np.ones(d, "f4"), f"{name}.bias": np.zeros(d, "f4")}
    arrays["embeddings.word_embeddings.weight"] = np.ones((9, d), "f4")
    return save(arrays)


CONFIGS = {
    "gpt2": {"model_type": "gpt2", "n_embd": 4, "n_head": 2, "n_layer": 1, "n_positions": 8,
             "vocab_size": 9, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02},
    "bert": {"model_type": "bert", "hidden_size": 4, "num_attention_heads": 2,
             "num_hidden_layers": 1, "max_position_embeddings": 8, "vocab_size": 9,
             "layer_norm_eps": 1e-12, "initializer_range": 0.02},
}  # fmt: skip


def arrays_of_data() -> dict[str, np.ndarray]:
    """What `capax data --out d.npz` writes, for T = 5."""
    from capax.data.task import TaskSpec, draw_task

    spec = TaskSpec(function="and2", T=5, m=20, validation_size=30)
    task = draw_task(spec)
    return {
        "X_train": task.X_train, "y_train": task.y_train, "X_validation": task.X_validation,
        "y_validation": task.y_validation, "support": np.array(task.support),
        "rejections": np.array(task.rejections), "spec": np.array(spec.model_dump_json()),
    }  # fmt: skip


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


@functools.cache
def experiments() -> dict[str, str]:
    """The shipped experiments, and a simulated one with every kind of table, as JSON."""
    folder = files("capax") / "experiments"
    shipped = {p.name: tomllib.loads(p.read_text()) for p in Path(str(folder)).glob("*.toml")}
    own = {
        "name": "small", "claim": "a test",
        "model": {"family": "simulated", "threshold": 13.0, "growth": 2.0, "spread": 0.3},
        "training": {"restarts": 3}, "axes": {"spread": [0.1, 0.3]},
        "panels": {"threshold": {"T": [7, 31], "search": {"m_low": 5, "m_high": 90, "batch": 6,
                                                         "min_trials": 12, "max_trials": 24}},
                   "curves": {"T": [11], "search": {"method": "grid", "m": [5, 40], "trials": 3}}},
        "scales": {"quick": {}, "paper": {"panels": {"threshold": {"T": [7, 31, 101]}}}},
    }  # fmt: skip
    tree = {"function": "and3", "family": "tree", "T": [10, 20], "training": {"time_limit": 5.0},
            "optimiser": {"lr": 0.1}}  # fmt: skip
    return {name: json.dumps(tree) for name, tree in {**shipped, "own": own, "tree": tree}.items()}


@functools.cache
def store() -> bytes:
    """A finished sweep of a simulated learner, with one model kept."""
    from capax.sweep.experiments.spec import build_experiment
    from capax.sweep.running.runner import run_sweep
    from capax.sweep.storage.store import Store

    fields: dict[str, Any] = {
        "name": "toy",
        "model": {"family": "simulated", "threshold": 13.0, "growth": 2.0, "spread": 0.3},
        "panels": {"threshold": {"T": [7, 31], "search": {"m_low": 5, "m_high": 90, "batch": 4,
                                                         "min_trials": 4, "max_trials": 8}},
                   "curves": {"T": [11], "search": {"method": "grid", "m": [5, 40], "trials": 2}}},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "toy.sqlite"
        experiment = build_experiment(fields)
        with Store.create_or_resume(path, experiment) as opened:
            run_sweep(experiment, opened)
            rows = opened.select("SELECT run_id FROM runs ORDER BY run_id LIMIT 1")
            with opened._connection as connection:
                content = weight_files()["transformer"]
                connection.execute("INSERT INTO parameters VALUES (?, ?)", (rows[0][0], content))
        return path.read_bytes()


POINTS = "x,y\n" + "\n".join(f"{x},{x * x % 7}" for x in range(9)) + "\n"


@functools.cache
def good_files() -> dict[str, bytes]:
    """Everything a command line may name, by file name."""
    weights = {f"{name}.safetensors": content for name, content in weight_files().items()}
    table = io.BytesIO()
    np.save(table, np.arange(12.0).reshape(6, 2))
    return {
        **weights, "points.csv": POINTS.encode(), "points.npy": table.getvalue(),
        "data.npz": npz(arrays_of_data()), "toy.sqlite": store(), "text.txt": b"a b c\nd e f\n",
        "small.toml": b'function = "and2"\nfamily = "simulated"\nT = [5]\n',
        "config.json": json.dumps(CONFIGS["gpt2"]).encode(), "empty": b"",
    }  # fmt: skip
