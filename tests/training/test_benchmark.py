"""The benchmark's bookkeeping: rounds, ratios and keys (times themselves are never tested)."""

from collections import Counter

import pytest

from capax.training.speed import benchmark as bench
from capax.training.speed.roofline import Ceilings, least_seconds

KEYS = {
    "naive_jax_ms",
    "torch_full_ms",
    "torch_cls_ms",
    "capax_ms",
    "speedup_full",
    "speedup_cls",
    "roofline_fraction",
}


@pytest.fixture
def calls(monkeypatch):
    """Contestants with known times: a second call is twice as fast; PyTorch in full is slow."""
    seen = Counter()

    def contestant(name, seconds):
        def time(trial, *_):
            key = (name, trial.model.T)
            seen[key] += 1
            return seconds * trial.model.T / seen[key]

        return time

    def ceilings(*_):
        seen["ceilings"] += 1
        return Ceilings(1e9 * seen["ceilings"], 1e9 / seen["ceilings"])

    monkeypatch.setattr(bench, "measure", ceilings)
    monkeypatch.setattr(bench, "has_torch", lambda: True)
    monkeypatch.setattr(bench, "capax_seconds", contestant("ours", 1e-6))
    monkeypatch.setattr(bench, "naive_seconds", contestant("naive", 1e-3))
    monkeypatch.setattr(
        bench,
        "torch_seconds",
        lambda trial, only_cls, _: contestant(only_cls, 1e-3 if only_cls else 1e-1)(trial),
    )
    return seen


def test_the_less_disturbed_round_counts_and_slow_rivals_run_once(calls):
    report = bench.benchmark((11, 300, 700), budget=2.0)
    found = report["T"]["300"]
    assert set(found) == KEYS
    assert calls[(False, 300)] == 1 and calls[(False, 11)] == 2 and calls[(True, 700)] == 2
    assert found["capax_ms"] == pytest.approx(1e3 * 300e-6 / 2)
    assert found["speedup_full"] == pytest.approx(30 / 150e-6)
    assert found["speedup_cls"] == pytest.approx(0.15 / 150e-6)
    assert report["exponent_T"] == pytest.approx(1.0)
    assert (report["gflops_per_second"], report["gbytes_per_second"]) == (2.0, 1.0)
    least = least_seconds(bench.trial_at(300, 60).model, 60, Ceilings(2e9, 1e9))
    assert found["roofline_fraction"] == pytest.approx(least / 150e-6)


def test_the_rival_with_dropout_is_the_same_network_where_nothing_is_dropped():
    import torch

    from capax.training.speed.torch_rivals import BatchedCollapse, BatchedDropout

    torch.manual_seed(0)
    collapsed = BatchedCollapse(2, 5, 6, 3, 7, "cpu")
    dropping = BatchedDropout(2, 5, 6, 3, 7, "cpu")
    dropping.load_state_dict(collapsed.state_dict())
    dropping.dropout = 0.0
    bits = (torch.rand(2, 4, 5) < 0.5).float()
    wanted = collapsed(torch.cat([1 - bits, bits], -1))
    torch.testing.assert_close(dropping(bits.long()), wanted)
