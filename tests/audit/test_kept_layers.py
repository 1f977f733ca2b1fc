"""Readings that start at a later layer give the losses of whole readings, family by family."""

import numpy as np
import pytest
import tiny_models
import torch

from capax.audit.text import ablation
from capax.audit.text.attention_watch import NAME, register
from capax.audit.text.kept_layers import KeptLayers

PIECES = [tuple(int(t) for t in row) for row in np.random.default_rng(4).integers(2, 30, (3, 20))]
BIDIRECTIONAL = ("bert", "roberta", "distilbert", "albert")
CAUSAL = ("gpt2", "gpt_neox", "llama", "mistral", "qwen3", "phi3", "gemma2", "gemma3", "opt")


def speaker(name: str):
    """A tiny random model that predicts tokens, and its number of layers."""
    import transformers

    kind, fields = tiny_models.CONFIGS[name]
    config = getattr(transformers, kind)(**fields, use_cache=False)
    auto = "AutoModelForMaskedLM" if name in BIDIRECTIONAL else "AutoModelForCausalLM"
    torch.manual_seed(7)
    model = getattr(transformers, auto).from_config(config, attn_implementation=NAME).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    unused = [torch.nn.Identity() for _ in range(config.num_hidden_layers)]
    model.unused = torch.nn.ModuleList(unused)  # as many as layers, and no layers
    return model, config.num_hidden_layers


def measured(model, layers, causal, monkeypatch):
    """Rises of the loss, and the number of attention layers that were computed."""
    computed, softmax = [], torch.softmax

    def counted(*arguments, **named):
        computed.append(1)
        return softmax(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(torch, "softmax", counted)
        found = ablation.ablation(model, PIECES, (layers, 4), causal=causal, mask_token=30)
    return found.rows, len(computed)


@pytest.mark.parametrize("name", [*CAUSAL, *BIDIRECTIONAL])
def test_a_reading_from_a_later_layer_gives_the_losses_of_a_whole_one(name, monkeypatch):
    """Heads one at a time, so that a reading starts at every layer."""
    register()
    model, layers = speaker(name)
    causal = name not in BIDIRECTIONAL
    monkeypatch.setattr(ablation, "AT_ONCE", 1)
    rows, computed = measured(model, layers, causal, monkeypatch)
    monkeypatch.setattr(ablation, "KeptLayers", lambda model, _: KeptLayers(model, 10**6))
    whole, most = measured(model, layers, causal, monkeypatch)

    readings = len(PIECES) * (1 + 4 * layers)
    skipped = len(PIECES) * 4 * layers * (layers - 1) // 2
    assert most == readings * layers
    assert computed == (most if name == "albert" else most - skipped)
    effects = [row["loss_difference"] for row in whole.values()]
    assert min(map(abs, effects)) > 1e-5  # far above the tolerance
    for place, row in whole.items():
        for number, value in row.items():
            assert rows[place][number] == pytest.approx(value, abs=2e-6)


def test_layers_compute_again_after_an_error(monkeypatch):
    register()
    model, layers = speaker("llama")
    calls, cross_entropy = iter([False, False, True]), torch.nn.functional.cross_entropy

    def failing(*arguments, **named):
        if next(calls):
            raise RuntimeError("out of memory")
        return cross_entropy(*arguments, **named)

    monkeypatch.setattr(torch.nn.functional, "cross_entropy", failing)
    monkeypatch.setattr(ablation, "AT_ONCE", 5)  # the second group starts at layer 1
    with pytest.raises(RuntimeError, match="out of memory"):
        ablation.ablation(model, PIECES, (layers, 4), causal=True, mask_token=None)
    for module in model.modules():
        assert "forward" not in vars(module) and not module._forward_hooks
