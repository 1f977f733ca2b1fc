"""Stores and identities of before: trials keep their names, and an old card goes on."""

import shutil
from pathlib import Path

import pytest

from capax.cards.answers.read_card import read_card
from capax.cards.measuring.card_question import CardQuestion
from capax.cards.measuring.run_card import run_card
from capax.cards.protocol.plan import REFERENCE, Plan
from capax.identity import digest
from capax.learners.names import entry_of, known_names
from capax.sweep.experiments.shipped import shipped_experiments
from capax.sweep.experiments.spec import load_experiment
from capax.sweep.experiments.tasks import largest_m
from capax.sweep.families.known_families import family_of, family_of_entry
from capax.sweep.storage.store import Store

BEFORE = Path(__file__).parent / "stores" / "before.sqlite"
PLAN = Plan(T=(5,), targets=("and3", "xor2"), m_high=16, max_trials=8, more_trials=2,
            accuracies=(1.0, 0.95), rates=(1e-3, 1e-2), tuning_trials=1, steps=40, eval_every=20,
            validation_size=64)  # fmt: skip
IDENTITIES = {
    "figure2 quick": ("8ca6930359ac", "6267969c304e"),  # its T are others since the first release
    "figure2 paper": ("8ca6930359ac", "587e7efcda71"),
    "figure2 beyond": ("8ca6930359ac", "682be9315568"),
    "figure2 smoke": ("dbf035c5900e", "80978367f2b9"),
    "figure3 quick": ("ed7e9b13f5a4", "d3242eb2e46a"),
    "figure3 paper": ("ed7e9b13f5a4", "d3242eb2e46a"),
    "figure3 beyond": ("ed7e9b13f5a4", "d3242eb2e46a"),
    "figure3 smoke": ("a3abcf654c7a", "7c44720463e2"),
    "figure4 quick": ("b44cef8a841e", "6799302ffb18"),
    "figure4 paper": ("b44cef8a841e", "6799302ffb18"),
    "figure4 beyond": ("b44cef8a841e", "6799302ffb18"),
    "figure4 smoke": ("2680249ca300", "fcd1e7fa6fa2"),
    "smoke quick": ("16adfd3b45e9", "8cbff997d768"),
    "smoke paper": ("16adfd3b45e9", "8cbff997d768"),
}
"""By experiment and scale: its digest, and that of the trials number 3 at its first and last T."""


@pytest.mark.parametrize("before", IDENTITIES)
def test_the_trials_of_shipped_experiments_keep_their_names(before):
    name, scale = before.split()
    plan = load_experiment(shipped_experiments()[name], scale)
    ids = [
        family_of(panel).trial(panel, T, largest_m(panel, T), 3).trial_id
        for panel in plan.panels
        for T in (panel.T[0], panel.T[-1])
    ]
    assert (plan.digest[:12], digest(ids)[:12]) == IDENTITIES[before]


def test_the_trials_of_the_reference_card_keep_their_names():
    ids = []
    for name in known_names():
        entry = entry_of(name)
        panel = CardQuestion(REFERENCE, entry, "staircase", 50).at(1e-3 if entry.tuned else None)
        ids.append(family_of_entry(entry).trial(panel, 50, 40, 2).trial_id)
    entries = tuple(map(entry_of, known_names()))
    assert digest(ids)[:12] == "9c27cbd60b57"
    assert REFERENCE.experiment(entries).digest[:12] == "a620d1f4b0a0"


def trials(store):
    query = "SELECT trial_id, panel, m, number, solved FROM trials ORDER BY trial_id"
    return [tuple(row) for row in store.select(query)]


def test_every_trial_of_an_old_card_would_be_the_same_today():
    with Store.read(BEFORE) as store:
        rows = trials(store)
    for trial_id, panel, m, number, _ in rows:
        name, _, rest = panel.partition(" on ")
        target, _, rate = rest.partition(", tuning lr = ")
        question = CardQuestion(PLAN, entry_of(name), target, 5)
        lr = float(rate or 1e-2) if name == "mlp" else None  # 0.01 was chosen for both targets
        made = family_of_entry(entry_of(name)).trial(question.at(lr), 5, m, number)
        assert made.trial_id == trial_id, panel


def test_a_card_of_before_is_read_and_goes_on(tmp_path):
    """Made before cards ran on the sweep's runner; of each panel the last trial is taken away."""
    path = tmp_path / "old.sqlite"
    shutil.copy(BEFORE, path)
    entries = (entry_of("mlp"), entry_of("version_space"))
    with Store.create_or_resume(path, PLAN.experiment(entries)) as store:
        assert len(trials(store)) == 74
        last = store.select("SELECT max(rowid), trial_id FROM trials GROUP BY panel")
        for _, trial_id in last:
            for table in ("runs", "trials"):
                store._connection.execute(f"DELETE FROM {table} WHERE trial_id = ?", (trial_id,))
        assert len(trials(store)) == 74 - len(last)
        kept = trials(store)
        run_card(PLAN, entries, store)
        found = set(trials(store))
        assert set(kept) <= found
        again = read_card(PLAN, entries, store).rows
    assert len(again) == 8  # two learners, two targets, two accuracies
