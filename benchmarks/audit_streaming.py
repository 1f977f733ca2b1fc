"""A Llama-shaped checkpoint of seven billion parameters, audited within its memory limit.

The file is sparse: zeros are holes, and the attention of two layers is noise, so that it takes half
a gigabyte of disk for 13.5 GB of numbers. Prints the peak memory of a fresh process beside the
limit (the largest layer plus 500 MB) and the seconds of one core.

    python benchmarks/audit_streaming.py [FOLDER]
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

D, LAYERS, HEADS, HIDDEN, WORDS = 4096, 32, 32, 11008, 32000
NOISY = (0, LAYERS - 1)
MEASURE = """
import json, resource, sys, time
from capax.audit.auditing import audit
found = audit(sys.argv[1])
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"heads": len(found.rows), "peak_mb": used.ru_maxrss / 1024,
                  "cpu_s": used.ru_utime + used.ru_stime,
                  "noise": found.rows[0]["ratio_to_random"],
                  "zeros": found.rows[32]["W_QK_F"]}))
"""


def shapes() -> dict[str, tuple[int, ...]]:
    table: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (WORDS, D)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        table |= {f"{at}self_attn.{m}_proj.weight": (D, D) for m in "qkvo"}
        table |= {f"{at}mlp.{m}_proj.weight": (HIDDEN, D) for m in ("gate", "up")}
        table |= {f"{at}mlp.down_proj.weight": (D, HIDDEN), f"{at}input_layernorm.weight": (D,),
                  f"{at}post_attention_layernorm.weight": (D,)}  # fmt: skip
    return table | {"model.norm.weight": (D,), "lm_head.weight": (WORDS, D)}


def write_sparse(folder: Path) -> int:
    """The checkpoint with holes; returns its number of parameters."""
    header, at = {}, 0
    for name, shape in shapes().items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    rng = np.random.default_rng(0)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        start = file.tell()
        for name, entry in header.items():
            noisy = any(f"layers.{n}." in name and "self_attn" in name for n in NOISY)
            if noisy or name.endswith("input_layernorm.weight"):
                file.seek(start + entry["data_offsets"][0])
                values = rng.normal(0, 0.02, entry["shape"]) if noisy else np.ones(entry["shape"])
                file.write(values.astype("<f2").tobytes())
        file.truncate(start + at)
    config = {"model_type": "llama", "hidden_size": D, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
              "intermediate_size": HIDDEN, "vocab_size": WORDS, "max_position_embeddings": 4096,
              "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "initializer_range": 0.02}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return at // 2


def main(folder: Path) -> None:
    parameters = write_sparse(folder)
    file = folder / "model.safetensors"
    disk = 512 * file.stat().st_blocks
    largest = 2 * (4 * D * D + 3 * D * HIDDEN) / 2**20
    done = subprocess.run([sys.executable, "-c", MEASURE, str(folder)], capture_output=True,
                          text=True, check=True)  # fmt: skip
    result = json.loads(done.stdout)
    print(f"{parameters / 1e9:.2f} billion parameters, {file.stat().st_size / 1e9:.2f} GB, "
          f"{disk / 1e9:.2f} GB on the disk, {result['heads']} heads")  # fmt: skip
    print(f"peak {result['peak_mb']:.0f} MB, limit {largest + 500:.0f} MB (largest layer "
          f"{largest:.0f} MB + 500 MB), {result['cpu_s']:.0f} s of one core")  # fmt: skip
    print(f"noise: ratio to random {result['noise']:.4f}; zeros: W_QK_F = {result['zeros']}")
    assert result["peak_mb"] < largest + 500


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
