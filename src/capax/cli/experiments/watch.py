"""`capax watch`: current runs, and their predicted chance of being solved: wait or stop?"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit

if TYPE_CHECKING:
    from capax.terminal import Terminal
    from capax.training.alarm.alarm import Alarm


def watch(
    path: Annotated[
        Path,
        typer.Argument(help="Store of a running or finished sweep, or a file of `train --live`."),
    ],
    run: Annotated[
        str | None,
        typer.Option(help="A run, by the beginning of its id: all its evaluations."),
    ] = None,
    knows_support: Annotated[
        bool,
        typer.Option("--knows-support", help="Also read measures that use the true positions."),
    ] = False,
    fitted_on: Annotated[
        Path | None, typer.Option(help="Fit the alarm to the runs of this store, not to ours.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="With --run: its loss and its progress, .png, .svg or .pdf.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Current runs: loss, hidden progress, the chance that they are solved within their steps.

    The alarm reads the measures that runs record (`progress` of an experiment file): no labels, and
    without --knows-support no measure that uses the relevant positions. It was fitted to parities;
    for other tasks or learners fit it to your own finished runs with --fitted-on.

    Example: `capax watch out/parity-quick.sqlite`
    """
    from capax.errors import require
    from capax.training.alarm.alarm import shipped_alarm

    require(plot is None or run is not None, "run", "a run to draw, beside --plot", None)
    kind = "knowing" if knows_support else "blind"
    alarm = shipped_alarm(kind) if fitted_on is None else _fitted(fitted_on, kind)
    found, finished = _runs(path, run)
    rows = [row for one in found for row in _said(alarm, one, each_look=run is not None)]
    if plot is not None:
        _draw(alarm, found[0], plot)
    payload = {"runs": rows, "finished": finished, "alarm": alarm.kind, "about": alarm.about}
    emit(payload, as_json, lambda console: _show(console, payload, run is not None))


def _draw(alarm: "Alarm", one: dict[str, Any], plot: Path) -> None:
    """Loss, progress, and the predicted chance at every evaluation."""
    import numpy as np

    from capax.figures.experiments.progress_of_a_run import draw_progress
    from capax.figures.style import check_destination, save
    from capax.training.alarm.features import features, has_series

    check_destination(plot)
    curves = dict(one["curves"])
    if has_series(curves, alarm.kind):
        rows = features(curves, one["T"], alarm.kind)
        left = [one["limit"] - step for step in curves["step"]]
        curves["chance"] = alarm.chance(rows, np.array(left, float)).tolist()
    title = f"run {one['run_id'][:8]}: {one['function'] or 'own data'}, T = {one['T']}"
    save(draw_progress(curves, title, one.get("solved_step")), plot)


def _fitted(store: Path, kind: Any) -> "Alarm":
    from capax.analysis.times.alarm_fit import describe, fit_alarm, watched_runs
    from capax.reading import existing_store
    from capax.sweep.storage.store import Store

    with Store.read(existing_store(store)) as opened:
        runs = watched_runs(opened)
    return fit_alarm(runs, kind, describe(runs, store=store.name))


def _runs(path: Path, run: str | None) -> tuple[list[dict[str, Any]], int | None]:
    """Current runs (or the named one, also a finished one), and the number of finished trials."""
    from capax.errors import InputError
    from capax.reading import existing, existing_store
    from capax.sweep.storage.file import is_database
    from capax.training.alarm.live_file import live_path, live_runs

    store = existing_store(path)
    is_store = is_database(existing(store, "a store of `capax sweep` or a file of `train --live`"))
    live = live_path(store) if is_store else store
    found = [
        {"run_id": r.run_id, "T": r.T, "limit": r.limit, "function": r.function,
         "curves": r.curves, "seconds_ago": time.time() - live.stat().st_mtime}
        for r in (live_runs(live) if live.exists() else [])
        if r.curves.get("step") and (run is not None or not r.is_over)
    ]  # fmt: skip
    finished = None
    if is_store:
        finished, stored = _stored(store, run)
        found += stored
    if run is not None:
        found = [one for one in found if one["run_id"].startswith(run)][:1]
        if not found:
            raise InputError(f"{path}: no run with an id that begins with {run!r}")
    return found, finished


def _stored(path: Path, run: str | None) -> tuple[int, list[dict[str, Any]]]:
    from capax.errors import InputError
    from capax.sweep.storage.store import Store

    with Store.read(path) as store:
        finished = store.select("SELECT count(*) AS trials FROM trials")[0]["trials"]
        if run is None:
            return finished, []
        wanted = "FROM runs WHERE substr(run_id, 1, ?) = ? LIMIT 1"
        query = f"SELECT run_id, spec, curves, solved_step {wanted}"
        found = []
        for row in store.select(query, len(run), run):
            spec = store.plain(row["spec"], "spec")
            curves = store.series(row["curves"], "curves")
            if not isinstance(spec.get("task"), dict) or "steps" not in spec:
                raise InputError(f"{path}: the run {run!r} was not trained in steps")
            found.append({"run_id": row["run_id"], "T": spec["task"]["T"], "limit": spec["steps"],
                          "function": spec["task"].get("function"), "curves": curves,
                          "solved_step": row["solved_step"]})  # fmt: skip
        return finished, found


def _said(alarm: "Alarm", one: dict[str, Any], each_look: bool) -> list[dict[str, Any]]:
    """A row for the last evaluation of a run, or for about twenty of its evaluations."""
    from capax.training.alarm.features import has_series

    curves, n = one["curves"], len(one["curves"].get("step", ()))
    looks = sorted({max(1, round(n * k / 20)) for k in range(1, 21)}) if each_look else [n]
    rows = []
    for k in looks if n else []:
        so_far = {name: values[:k] for name, values in curves.items()}
        row = {"run_id": one["run_id"], "T": one["T"], "function": one["function"],
               "step": int(so_far["step"][-1]), "limit": one["limit"],
               "loss": so_far["loss"][-1], "accuracy": so_far["validation_accuracy"][-1],
               "chance": None, "median": None}  # fmt: skip
        if has_series(so_far, alarm.kind):
            said = alarm.forecast(so_far, one["T"], one["limit"])
            row |= {"chance": said.chance, "median": said.median}
        if "seconds_ago" in one:
            row["seconds_ago"] = round(one["seconds_ago"], 1)
        rows.append(row)
    return rows


def _show(console: "Terminal", payload: dict[str, Any], each_look: bool) -> None:
    rows = payload["runs"]
    if not rows:
        console.print(
            "No run is in training." if not each_look else "The run recorded no progress."
        )
    else:
        cells = [
            (row["run_id"][:8], row["T"], row["function"] or "-",
             f"{row['step']} of {row['limit']}", f"{row['loss']:.4f}", f"{row['accuracy']:.3f}",
             "-" if row["chance"] is None else f"{row['chance']:.0%}",
             "-" if row["median"] is None else str(row["median"]))
            for row in rows
        ]  # fmt: skip
        head = ("run", "T", "task", "step", "loss", "accuracy", "solved", "half by step")
        console.table(cells, head=head, align="lrlrrrrr")
    if payload["finished"] is not None:
        console.print(f"{payload['finished']} trials are finished.")
    late = max((row.get("seconds_ago", 0) for row in rows), default=0)
    if late > 600:
        console.print(
            f"The last evaluation is {late / 60:.0f} minutes old: is the training still running?"
        )


def register(app: typer.Typer) -> None:
    app.command("watch")(watch)
