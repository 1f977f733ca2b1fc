"""What `capax thresholds` prints for people."""

import io

from capax.cli.experiments.thresholds import _show
from capax.terminal import Terminal


def test_an_open_interval_in_the_verdict_is_not_taken_for_a_style():
    page = io.StringIO()
    verdict = "A power law has c = 2 [open, open]."
    curve = {"name": "[red]", "thresholds": [], "fit": {"laws": []}, "verdict": verdict}
    _show(Terminal(file=page), {"curves": [curve, curve]})
    assert "[red]" in page.getvalue()
    assert verdict in page.getvalue()
