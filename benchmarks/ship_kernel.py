"""PTX of the kernel as it travels with the package: `python benchmarks/ship_kernel.py`.

Needs NVRTC 13.0 (`nvidia-cuda-nvrtc`), no GPU. To be run after every change of `fused/cuda`; a test
tells when it was forgotten.
"""

import lzma
from pathlib import Path

from capax.attention.transformer import transformer_spec
from capax.training.fused import step_kernel
from capax.training.fused.nvrtc import to_ptx, version
from capax.training.specs.trial_specs import OptimiserSpec


def main() -> None:
    if version() != step_kernel.SHIPPED_BY:
        raise SystemExit(f"NVRTC: wanted version {step_kernel.SHIPPED_BY}, got {version()}")
    folder = Path(step_kernel.__file__).parent / "ptx"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.ptx.xz"):
        old.unlink()
    for part in (0, *step_kernel.PARTS):
        macros = step_kernel.macros_of(transformer_spec(T=1), OptimiserSpec(), part)
        source, files, options = step_kernel.whole_source(macros)
        text = to_ptx(source, files, options)
        file = folder / f"{step_kernel.identity(source, files, options)}.ptx.xz"
        file.write_bytes(lzma.compress(text.encode(), preset=9))
        print(f"{file}: {file.stat().st_size} bytes, {len(text)} of PTX")


if __name__ == "__main__":
    main()
