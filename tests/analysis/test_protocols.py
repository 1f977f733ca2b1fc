"""A protocol in words: what differs between two panels is said, defaults among it."""

import pytest

from capax.analysis.reference.protocols import protocol_words
from capax.sweep.shipped import experiment_path
from capax.sweep.spec import build_experiment, load_experiment


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


def test_learners_without_steps_have_none():
    assert words(model={"family": "simulated"}) == ""
    assert words(model={"family": "tree"}) == ""
