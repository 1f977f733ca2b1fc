"""`capax card`: the inductive bias of a learner, measured, beside the reference learners."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from capax.cli.experiments import card_options as options
from capax.cli.experiments.card_progress import card_progress
from capax.cli.experiments.card_table import show_card
from capax.cli.experiments.where import Address, On, Where, ready_for
from capax.cli.speaking.destinations import check_destinations
from capax.cli.speaking.output import JsonFlag, emit, note
from capax.cli.speaking.shared_options import LabelNoise
from capax.errors import InputError, counted

if TYPE_CHECKING:
    from capax.cards.answers.card_rows import Card


def card(
    learners: options.Learners = None,
    T: options.Lengths = "20,50,100",
    target: options.Targets = "and3",
    mine: options.Mine = None,
    store: options.CardStores = None,
    html: options.PageFile = None,
    csv: options.TableFile = None,
    plot: options.PlotFile = None,
    support: options.Support = "random",
    noise: LabelNoise = 0.0,
    m_high: options.MostExamples = 640,
    trials: options.MostTrials = 40,
    time_limit: options.TimeLimit = 60.0,
    parity_steps: options.ParitySteps = 5000,
    jobs: options.AtOnce = None,
    minutes: options.Minutes = None,
    on: On = Where.here,
    address: Address = None,
    reference: options.ReferenceFlag = False,
    distil: options.DistilFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """How many examples does a learner need, and how does that grow with T?

    Per learner: m* with its interval at 100, 99 and 95 % accuracy, the ratio to the m of the best
    possible learner, the law of growth, the share of trials that passed, the chosen learning rate,
    the cost. Intervals and laws belong to the rate shown. Exit code 1 if a cell has no answer yet:
    `--minutes` was too short, or every trial failed with an error.

    Example: `capax card transformer mlp lasso --T 20,50,100 --html card.html --plot card.png`

    Example: `capax card --mine mine.py:build`
    """  # fmt: skip
    from capax.sweep.running.sharing import one_for_each_core

    ready_for(on, address)
    check_destinations(html, csv, picture=plot)
    jobs = jobs or one_for_each_core()
    if reference:
        if not distil:
            _train_reference(learners or (), _only(store), jobs, minutes, as_json)
            return
        made = _distilled(learners or (), store or ())
    else:
        names = [*(learners or ()), *([mine] if mine else [])]
        protocol = {"support": support, "noise": noise, "m_high": m_high, "max_trials": trials,
                    "time_limit": time_limit, "parity_steps": parity_steps, "on": on.value,
                    "address": address}  # fmt: skip
        made = _measured(
            names, _lengths(T), target, _only(store), jobs, minutes, protocol, bool(mine)
        )
    _written(made, html, csv, plot)
    emit(made.to_dict(), as_json, lambda console: show_card(console, made))
    _end(made)


def _lengths(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise InputError(f"T: wanted whole numbers separated by commas, got {text!r}") from None


def _measured(
    names: list[str],
    lengths: tuple[int, ...],
    target: str,
    store: Path | None,
    jobs: int,
    minutes: float | None,
    protocol: dict[str, Any],
    with_references: bool,
) -> "Card":
    from capax.learners.names import entry_of

    entries = [entry_of(name) for name in names]  # an unknown name is reported before slow imports
    from capax.cards.card import card as measure

    limit = None if any(e.in_lanes for e in entries) or not entries else protocol["time_limit"]
    with card_progress("card", minutes, limit) as told:
        return measure(
            *entries,
            T=lengths,
            targets=[part.strip() for part in target.split(",")],
            store=store,
            references=with_references,
            report=told,
            at_once=jobs,
            minutes=minutes,
            **protocol,
        )


def _train_reference(
    learners: "list[str] | tuple[str, ...]",
    store: Path | None,
    jobs: int,
    minutes: float | None,
    as_json: bool,
) -> None:
    """The whole reference set into a store; nothing is read from it yet."""
    from capax.cards.measuring.run_card import run_card
    from capax.cards.protocol.plan import REFERENCE

    entries, path = _entries(learners), _wanted(store)
    from capax.sweep.storage.store import Store

    with (
        Store.create_or_resume(path, REFERENCE.experiment(entries)) as opened,
        card_progress("reference", minutes) as told,
    ):
        status = run_card(REFERENCE, entries, opened, at_once=jobs, minutes=minutes, report=told)
        (row,) = opened.select("SELECT count(*) AS trials FROM trials")
    whole = status.finished_jobs == status.jobs
    state = "complete" if whole else "the time is over; the same command continues"
    line = f"{path}: {counted(row['trials'], 'trial')}; {state}"
    payload = {"store": path, "trials": row["trials"], "complete": whole}
    emit(payload, as_json, lambda console: console.print(line))


def _distilled(
    learners: "list[str] | tuple[str, ...]", stores: "list[Path] | tuple[Path, ...]"
) -> "Card":
    """From stores of the reference set to the file of the package."""
    from capax.cards.answers.card_rows import Card
    from capax.cards.answers.read_card import read_card
    from capax.cards.answers.reference_card import FILE, write_reference
    from capax.cards.protocol.plan import REFERENCE
    from capax.sweep.storage.store import Store

    entries, made, devices = _entries(learners), Card((), ()), set()
    for path in stores or (_wanted(None),):
        with Store.read(path) as opened:
            made = made.joined(read_card(REFERENCE, entries, opened))
            rows = opened.select("SELECT versions FROM sessions")
            found = [opened.plain(row["versions"], "versions") for row in rows]
        devices |= {str(versions.get("device", "unknown")) for versions in found}
    write_reference(made, {"device": ", ".join(sorted(devices))})
    note(f"{FILE}: {counted(len(made.rows), 'row')} of {counted(len(made.names), 'learner')}")
    return made


def _entries(learners: "list[str] | tuple[str, ...]") -> tuple[Any, ...]:
    from capax.learners.names import entry_of, known_names

    return tuple(entry_of(name) for name in learners or known_names())


def _only(stores: list[Path] | None) -> Path | None:
    if stores is not None and len(stores) > 1:
        raise InputError(f"store: {len(stores)} stores given; only --distil takes several")
    return stores[0] if stores else None


def _wanted(store: Path | None) -> Path:
    if store is None:
        raise InputError("--reference: give a store as well (--store FILE)")
    return store


def _written(made: "Card", html: Path | None, csv: Path | None, plot: Path | None) -> None:
    from capax.files import write_atomically

    if plot is not None and (made.rows or made.times):
        from capax.figures.style import save

        note(f"written: {save(made.plot(), plot)}")

    if csv is not None:
        write_atomically(csv, lambda file: file.write(made.to_csv().encode()))
    if html is not None:
        from capax.report.card_page import card_page
        from capax.report.page import render_page

        page = render_page(card_page(made, _command()))
        write_atomically(html, lambda file: file.write(page.encode()))


def _command() -> str:
    return shlex.join(["capax", *sys.argv[1:]])


def _end(made: "Card") -> None:
    """Exit code 1 if a cell of the card has no answer, after a message."""
    if not made.unanswered:
        return
    cells = [row for row in (*made.rows, *made.times) if row.learner in made.measured]
    left = f"{len(made.unanswered)} of {counted(len(cells), 'cell')} without an answer"
    note(f"{left}; the same command continues where this one stopped")
    raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    app.command("card")(card)
