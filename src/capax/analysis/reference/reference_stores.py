"""Reference results in the package: small stores.

A reference is a store in which every trial kept its T, m, seed and outcome. Runs are kept
for panels that are drawn as curves, with the parameters of one run, and left out for others. It
opens like any store, so thresholds, laws and figures come from the same functions. It also has the
command that repeats it, and its machine.
"""

import json
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from capax.errors import InputError, counted, require
from capax.files import write_atomically
from capax.foreign import printable
from capax.reading import reference_folders
from capax.sweep.experiments.spec import Experiment, nearest
from capax.sweep.storage.file import address, explained
from capax.sweep.storage.store import Store

FOLDER, OWN_FOLDER = reference_folders()
_ID_LENGTH = 16
"""Characters kept of a trial's hash: enough to tell trials apart and to find one again."""


@dataclass(frozen=True)
class Reference:
    """Facts about a reference that need no computation.

    has_thresholds: whether a panel searches for m*; other references hold learning curves alone.
    """

    name: str
    path: Path
    experiment: str
    scale: str
    T: tuple[int, ...]
    trials: int
    runs: int
    command: str
    made: str
    versions: dict[str, str]
    has_thresholds: bool = True

    @property
    def device(self) -> str:
        return self.versions.get("device", "unknown device")

    def __str__(self) -> str:
        return f"{self.name} ({counted(self.trials, 'trial')} on {self.device})"


def references(folder: Path | None = None) -> tuple[Reference, ...]:
    """All references in a folder, in the order of their names.

    By default the references of the package and of the user; of two with one name the package's.
    """
    paths: dict[str, Path] = {}
    for where in (FOLDER, OWN_FOLDER) if folder is None else (folder,):
        for path in where.glob("*.sqlite"):
            paths.setdefault(path.stem, path)
    return tuple(_described(paths[name]) for name in sorted(paths))


def reference(name: str, folder: Path | None = None) -> Reference:
    """The reference called `name`. Raises `InputError` with the nearest known name."""
    known = {found.name: found for found in references(folder)}
    if name not in known:
        raise InputError(f"reference: unknown {name!r}{nearest(name, (*known, 'published'))}")
    return known[name]


def add_reference(
    store: Path, name: str, *, command: str | None = None, folder: Path = OWN_FOLDER
) -> Reference:
    """Make the reference `name` from a finished store; replaces one of that name atomically.

    Raises `InputError` for a name with other characters, a name of the package, or a store with
    an unfinished T.
    """
    plain = name and all(c.isalnum() or c in "-_" for c in name)
    require(plain, "name", "letters, digits, - and _", name)
    taken = name == "published" or (folder == OWN_FOLDER and (FOLDER / f"{name}.sqlite").is_file())
    require(not taken, "name", "a name that is not used in the package", name)
    with Store.read(store) as opened:
        left = opened.unfinished()
        experiment = opened.experiment
    if left:
        raise InputError(f"{store}: not finished: {left[0].panel}, {left[0]}")
    command = command or f"capax sweep {experiment.name} --scale {experiment.scale}"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.sqlite"
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy.sqlite"
        with explained(store):  # damage in an index shows only when it is read
            _copied(store, copy)
            _distil(copy, command, drawn_panels(experiment))
        write_atomically(target, lambda file: file.write(copy.read_bytes()))
    return _described(target)


def _copied(store: Path, copy: Path) -> None:
    """A consistent copy, also while a sweep writes."""
    with (
        closing(sqlite3.connect(address(store, "ro"), uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)


def drawn_panels(experiment: Experiment) -> tuple[str, ...]:
    """The panels whose runs are drawn as curves (Figures 3 and 4)."""
    drawn = (p for p in experiment.panels if p.whole_curves or p.training.get("mode") == "online")
    return tuple(panel.name for panel in drawn)


def _distil(path: Path, command: str, drawn: tuple[str, ...]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA foreign_keys = OFF")
        runs, made = connection.execute(
            "SELECT (SELECT count(*) FROM runs), (SELECT max(finished) FROM trials)"
        ).fetchone()
        with connection:
            for statement in _LEFT_OUT:
                connection.execute(statement, (json.dumps(drawn),))
            _thin(connection)
            connection.execute(f"UPDATE trials SET finished = '', trial_id = {_SHORT_ID}")
            connection.execute(f"UPDATE runs SET trial_id = {_SHORT_ID}")
            facts = {"command": printable(command), "runs": str(runs), "made": made}
            connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", facts.items())
        connection.execute("VACUUM")


_FEW = 40  # runs with recorded progress that are kept whole
_CURVES, _LOOKS = 2, 40  # of more runs than that: drawn ones of each setting, and their looks
_OF_A_RUN = ("task", "steps", "eval_every", "mode", "batch_size", "restart")


def _thin(connection: sqlite3.Connection) -> None:
    """Keep few evaluations of few runs with recorded progress: hundreds of runs are megabytes."""
    query = """SELECT r.run_id, r.curves, r.spec, t.number + r.restart AS place
        FROM runs r JOIN trials t USING (trial_id)
        WHERE instr(r.curves, '"weight_movement"')"""  # SQLite does not accept NaN as JSON
    rows = connection.execute(query).fetchall()
    whole = len(rows) <= _FEW
    for run_id, text, spec, place in rows:
        series = json.loads(text) if whole or place < _CURVES else {}
        every = 1 if whole else -(-len(series.get("step", ())) // _LOOKS)
        kept = {name: values[::-1][:: max(1, every)][::-1] for name, values in series.items()}
        rounded = {name: [float(f"{v:.4g}") for v in values] if name != "step" else values
                   for name, values in kept.items()}  # fmt: skip
        if (
            place >= _CURVES and not whole
        ):  # the model and its rates are the same as in the first runs
            spec = json.dumps({k: v for k, v in json.loads(spec).items() if k in _OF_A_RUN})
        update = "UPDATE runs SET curves = ?, spec = ? WHERE run_id = ?"
        connection.execute(update, (json.dumps(rounded), spec, run_id))


_SHORT_ID = f"substr(trial_id, 1, {_ID_LENGTH})"
_LEFT_OUT = (
    """DELETE FROM runs WHERE trial_id NOT IN (
        SELECT trial_id FROM trials WHERE panel IN (SELECT value FROM json_each(?)))""",
    # for every kept panel: the first solved run, or the first run
    """DELETE FROM parameters WHERE run_id NOT IN (
        SELECT run_id FROM (
            SELECT r.run_id, row_number() OVER (PARTITION BY t.panel ORDER BY
                r.outcome != 'solved', t.T, t.m, t.number, r.restart) AS place
            FROM runs r JOIN trials t USING (trial_id) JOIN parameters USING (run_id)
            WHERE t.panel IN (SELECT value FROM json_each(?))
        ) WHERE place = 1)""",
)


def _described(path: Path) -> Reference:
    with Store.read(path) as store:
        experiment = store.experiment
        (row,) = store.select("SELECT count(*) AS trials FROM trials")
        sessions = store.select("SELECT versions FROM sessions ORDER BY session DESC LIMIT 1")
        return Reference(
            name=path.stem,
            path=path,
            experiment=experiment.name,
            scale=experiment.scale,
            T=tuple(sorted({T for panel in experiment.panels for T in panel.T})),
            trials=row["trials"],
            runs=int(store.meta("runs")),
            command=store.meta("command"),
            made=store.meta("made"),
            versions=store.plain(sessions[0]["versions"], "versions") if sessions else {},
            has_thresholds=len(drawn_panels(experiment)) < len(experiment.panels),
        )
