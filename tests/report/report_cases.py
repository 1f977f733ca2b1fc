"""A page of made-up results: all figures, two stores of runs."""

import figure_cases as cases

from capax.report.page import Finding, Page
from capax.report.provenance import (
    RunRow,
    StoreRecord,
    runs_section,
    settings_section,
    store_payload,
)
from capax.report.sections import (
    attention_section,
    learning_section,
    parity_section,
    threshold_section,
)

HOSTILE = "</script><script>window.broken = true</script> & <b>\u2028"


def run_row(T: int, m: int, seed: int, restart: int, *, run_id: str | None = None) -> RunRow:
    solved = (T + 3 * m + seed) % 3 != 0
    task = {"function": "and3", "T": T, "m": m, "p": "balanced", "seed": seed}
    return RunRow(
        run_id=run_id or cases.identifier("run", T, m, seed, restart),
        trial_id=cases.identifier("trial", T, m, seed),
        T=T,
        m=m,
        restart=restart,
        outcome="solved" if solved else "failed",
        solved_step=700 if solved else None,
        validation_accuracy=1.0 if solved else 0.9312,
        seconds=0.25,
        reason=None if solved else HOSTILE,
        spec={"task": task, "model": {"d": 64, "heads": 16}, "restart": restart, "steps": 1000},
    )


def threshold_store() -> StoreRecord:
    runs = tuple(
        run_row(T, m, seed, restart)
        for T in cases.LENGTHS
        for m in cases.SIZES
        for seed in range(3)
        for restart in range(2)
    )
    return StoreRecord("figure2", f"# {HOSTILE}", {"machine": HOSTILE, "jax": "0.0"}, runs)


def curve_store() -> StoreRecord:
    curves = cases.learning_curves().curves
    runs = tuple(run_row(307, curve.m, 0, 0, run_id=curve.run_id) for curve in curves)
    return StoreRecord("figure3", "steps = 1000", {"jax": "0.0"}, runs)


def page() -> Page:
    records = (threshold_store(), curve_store())
    maps = (cases.attention_map(6, 5), cases.attention_map(1, 7))
    return Page(
        title=f"A page {HOSTILE}",
        lead="Made-up numbers.",
        findings=(Finding("63 [56, 71]", "examples at T = 307"), Finding("19 of 20", "seeds")),
        sections=(
            threshold_section(
                cases.threshold_scaling(),
                trace={"store": "figure2"},
                anchor="figure-2",
            ),
            learning_section(cases.learning_curves(), anchor="figure-3-left"),
            attention_section(maps, anchor="figure-3-right"),
            parity_section(cases.parity_transition(), anchor="figure-4"),
            settings_section(records),
            runs_section(records),
        ),
        stores=tuple(store_payload(record) for record in records),
        footer="Nothing is loaded from the network.",
    )
