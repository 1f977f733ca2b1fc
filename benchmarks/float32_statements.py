"""For how many trained networks the float32 statement is proved: networks and their proof files.

python benchmarks/float32_statements.py RUNS PROOFS t50 [--cells 512]: RUNS/t50/013.safetensors goes
with PROOFS/t50-013.proof. One JSON line per network, then the counts.
"""

import argparse
import json
import time
from pathlib import Path

from capax.proving.compiled_proof import Proof
from capax.proving.in_float32 import float32_margin

parser = argparse.ArgumentParser()
parser.add_argument("runs", type=Path)
parser.add_argument("proofs", type=Path)
parser.add_argument("name")
parser.add_argument("--cells", type=int, default=512)
given = parser.parse_args()
margins = []
for file in sorted(given.proofs.glob(f"{given.name}-*.proof")):
    weights = given.runs / given.name / f"{file.stem.split('-')[1]}.safetensors"
    text = file.read_text()
    began, cpu = time.time(), time.process_time()
    margin = float32_margin(weights, Proof(text, ""), cells=given.cells)
    margins.append(margin)
    row = {"file": file.stem, "float32_margin": margin, "margin": json.loads(text.split("\n")[0])}
    row["margin"] = float(row["margin"]["margin"])
    row |= {"wall_s": round(time.time() - began, 2), "cpu_s": round(time.process_time() - cpu, 2)}
    print(json.dumps(row), flush=True)
held = [m for m in margins if m is not None]
print(json.dumps({"networks": len(margins), "float32": len(held), "smallest": min(held)}))
