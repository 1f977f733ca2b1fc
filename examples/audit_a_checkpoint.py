"""What do the heads of a real checkpoint hold? Norms of every head beside random initialisation.

Replace `checkpoint` by a folder or a .safetensors, .bin, .pt, .gguf or .onnx file of your own. The
file written here is a GPT-2 layer with random weights, so that the example needs no download.
"""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import capax

checkpoint = Path("tiny")
checkpoint.mkdir(exist_ok=True)
rng, d = np.random.default_rng(0), 24
shapes = dict.fromkeys(("attn.c_proj", "mlp.c_fc", "mlp.c_proj"), (d, d))
shapes["attn.c_attn"] = (d, 3 * d)
weights = {"wte.weight": rng.normal(size=(31, d)), "wpe.weight": rng.normal(size=(64, d))}
for name, shape in shapes.items():
    weights[f"h.0.{name}.weight"] = rng.normal(scale=0.02, size=shape)
    weights[f"h.0.{name}.bias"] = np.zeros(shape[1])
for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
    weights |= {f"{name}.weight": np.ones(d), f"{name}.bias": np.zeros(d)}
save_file(
    {name: array.astype(np.float32) for name, array in weights.items()},
    checkpoint / "model.safetensors",
)
config = {"model_type": "gpt2", "n_embd": d, "n_head": 4, "n_layer": 1, "n_positions": 64}
(checkpoint / "config.json").write_text(json.dumps(config))

for row in capax.audit(checkpoint).rows:
    ratio = row["ratio_to_random"]
    print(f"head {row['head']}: ||W_QK||_F = {row['W_QK_F']:.4f}, {ratio:.2f} times random")
