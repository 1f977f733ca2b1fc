"""Files that several commands are tried on."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file


@pytest.fixture
def gpt2_file(tmp_path: Path) -> Path:
    """One GPT-2 layer of width 6."""
    rng, d = np.random.default_rng(0), 6
    shapes = {
        "attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d), "mlp.c_fc": (d, 9), "mlp.c_proj": (9, d),
    }  # fmt: skip
    weights = {}
    for name, shape in shapes.items():
        weights[f"h.0.{name}.weight"] = rng.normal(size=shape)
        weights[f"h.0.{name}.bias"] = rng.normal(size=shape[1])
    for name in ("ln_1", "ln_2"):
        weights[f"h.0.{name}.weight"], weights[f"h.0.{name}.bias"] = np.ones(d), np.zeros(d)
    save_file(weights, tmp_path / "gpt2.safetensors")
    return tmp_path / "gpt2.safetensors"
