"""A protocol in words: what differs between two panels is said, defaults among it."""

import pytest

from capax.analysis.reference import protocols
from capax.analysis.reference.protocols import protocol, protocol_words
from capax.data.spec_base import Spec
from capax.sweep.experiments.shipped import experiment_path
from capax.sweep.experiments.spec import build_experiment, load_experiment
from capax.sweep.trial import Trial


def words(**fields):
    plan = {"name": "p", "function": "and3", "T": [20], "model": {"family": "transformer"}}
    return protocol_words(build_experiment({**plan, **fields}).panels[0])


def test_the_two_protocols_of_figure_2():
    published, own = (
        protocol_words(load_experiment(experiment_path("figure2"), scale).panels[0])
        for scale in ("published", "quick")
    )
    assert published == (
        "Protocol: Adam at rate 0.001, weight decay 0.0001 inside Adam, dropout 0.1, gradients "
        "clipped at norm 1, two logits; solved when more than 99% are right at a look, every 10 "
        "steps."
    )
    assert own == (
        "Protocol: AdamW at rate 0.001, weight decay 0.0001 decoupled, no dropout, no clipping, "
        "one logit; solved when every answer is right at a look, every 100 steps."
    )


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"optimiser": {"name": "adam"}}, "Adam at rate 0.001 without weight decay"),
        ({"optimiser": {"name": "sgd", "lr": 0.1}}, "SGD at rate 0.1 without weight decay"),
        ({"optimiser": {"weight_decay": 0.0}}, "AdamW at rate 0.001 without weight decay"),
        ({"training": {"dropout": {"output": 0.2}}}, "dropout 0.2 (output)"),
        ({"training": {"success": {"accuracy": 0.995}}}, "more than 99.50% are right at a look"),
        ({"training": {"success": {"accuracy": 0.9, "when": "end"}}}, "90% are right at the end."),
    ],
)
def test_settings_are_said(fields, part):
    assert part in words(**fields)


class OwnSpec(Spec):
    """The work of a trial of a family that somebody registered."""

    T: int
    m: int
    seed: int
    depth: int = 3


class OwnFamily:
    def trial(self, panel, T, m, index):
        return Trial(panel.name, T, m, index, "id", OwnSpec(T=T, m=m, seed=index))


@pytest.mark.parametrize("family", ["own", "transformer", "tree"])
def test_lengths_and_searches_are_no_part_of_a_protocol(family, monkeypatch):
    """Two panels at other T and m are the same experiment."""
    if family == "own":
        monkeypatch.setattr(protocols, "family_of", lambda _: OwnFamily())
    plan = {"name": "p", "function": "and3", "model": {"family": family}}
    searches = ({"method": "grid", "m": m, "trials": 2} for m in ([5, 9], [40]))
    lengths = zip(([20], [30, 50]), searches, strict=True)
    one, other = (
        protocol(build_experiment({**plan, "T": T, "search": s}).panels[0]) for T, s in lengths
    )
    assert one == other and one["family"] == family
    if family == "own":
        assert one == {"family": "own", "depth": 3}


def test_learners_without_steps_have_none():
    assert words(model={"family": "simulated"}) == ""
    assert words(model={"family": "tree"}) == ""
