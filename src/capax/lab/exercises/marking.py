"""The mark of an answer: proved on all 2^T inputs, or the input on which it is wrong.

Only the outputs of an answer count: networks are proved or refuted by `capax.decompile`, programs
are run on every input in a separate process.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from capax.boolean.functions import all_patterns
from capax.errors import InputError, require
from capax.foreign import one_line
from capax.lab.exercises.exercise_table import COVER_RADIUS, COVER_SIZE, Exercise, exercise

Verdict = Literal["proved", "counterexample", "open", "limit"]
FOLDED = 24  # inputs longer than this are shown by the positions of their ones


@dataclass(frozen=True)
class Mark:
    """The verdict on one answer.

    `counterexample`: the positions of the ones of an input with a wrong answer; `wanted` and `got`
    are the right and the given answer. `limit`: right on all inputs, but a limit of the exercise is
    exceeded. `open`: neither proved nor refuted. `margin`: proved distance from the threshold.
    """

    exercise: int
    T: int
    answer: str
    verdict: Verdict
    method: str
    margin: float | None = None
    counterexample: tuple[int, ...] | None = None
    wanted: str = ""
    got: str = ""
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether the exercise is solved."""
        return self.verdict == "proved"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        """One line with the exercise, the method and the verdict."""
        inputs = f"all 2^{self.T} inputs"
        lines = {
            "proved": f"proved on {inputs}",
            "limit": f"right on {inputs}, but: {self.reason}",
            "open": f"not proved on {inputs}: {self.reason}",
            "counterexample": f"counterexample: {self._input()}: wanted {self.wanted}, "
            f"got {self.got}",
        }
        margin = f", margin at least {self.margin:.4g}" if self.ok and self.margin else ""
        about = f"exercise {self.exercise}, {one_line(self.answer)}: {self.method}"
        return f"{lines[self.verdict]}{margin}\n{about}"

    def _input(self) -> str:
        ones = self.counterexample or ()
        if self.T <= FOLDED:
            return "".join("1" if t in ones else "0" for t in range(self.T)) + " (x0 first)"
        listed = ", ".join(f"x{t}" for t in ones[:FOLDED])
        more = f" and {len(ones) - FOLDED} more" if len(ones) > FOLDED else ""
        return f"ones at {listed}{more} alone" if ones else "the input without ones"


def mark(number: int, path: Path | str) -> Mark:
    """Mark the answer in a file. Raises `InputError` for a file without an answer."""
    from capax.reading import existing

    asked, file = exercise(number), existing(path, "an answer")
    wanted = " or ".join(f"a {form} file" for form in asked.forms)
    require(file.suffix in asked.forms, str(path), wanted, file.suffix or "no ending")
    found = _READERS[file.suffix](asked, file)
    return Mark(asked.number, asked.T, str(path), **found)


def _from_program(asked: Exercise, file: Path) -> dict[str, Any]:
    from capax.lab.exercises.python_answers import answers_of

    answers = answers_of(file, asked.T)
    right = _target(asked)(all_patterns(asked.T)) > 0.5
    return _compared(asked, answers, right, f"run on all 2^{asked.T} inputs")


def _from_toml(asked: Exercise, file: Path) -> dict[str, Any]:
    from capax.lab.exercises.heads_by_hand import head_by_hand
    from capax.reading import read_toml

    fields = read_toml(file)
    known = ("score", "value")
    if asked.by_formula or not asked.formula:
        known = ("formula",) if asked.by_formula else ("centres",)
    for name in (*known, *fields):
        wanted = " and ".join(known)
        require(name in known and name in fields, str(file), wanted, ", ".join(fields) or "nothing")
    if not asked.formula:
        return _cover(asked, fields["centres"])
    if asked.by_formula:
        return _formula(asked, fields["formula"])
    return _weights(asked, head_by_hand(fields, asked.T))


def _from_weights(asked: Exercise, file: Path) -> dict[str, Any]:
    import jax

    from capax.attention.checkpoint import load
    from capax.compiler.weights_file import is_compiled_file, load_compiled

    if is_compiled_file(file):  # also if it was edited by hand: its claims are not used
        return _weights(asked, load_compiled(file).model)
    with jax.enable_x64(True):
        return _weights(asked, load(file)[0])


_READERS = {".py": _from_program, ".toml": _from_toml, ".safetensors": _from_weights}


def _target(asked: Exercise) -> Any:
    from capax.boolean import parse

    return parse(asked.formula, asked.T)


def _compared(
    asked: Exercise, answers: np.ndarray, right: np.ndarray, method: str
) -> dict[str, Any]:
    """The first input with a wrong answer, in the order of all inputs."""
    wrong = np.flatnonzero(answers != right)
    if not len(wrong):
        return {"verdict": "proved", "method": method}
    row = int(wrong[0])
    return {
        "verdict": "counterexample",
        "method": f"wrong on {len(wrong)} of 2^{asked.T} inputs",
        "counterexample": tuple(t for t in range(asked.T) if row >> t & 1),
        "wanted": str(int(right[row])),
        "got": str(int(answers[row])),
    }


def _formula(asked: Exercise, text: Any) -> dict[str, Any]:
    from capax.boolean import parse

    require(isinstance(text, str), "formula", "a formula such as x1 & x2", text)
    f, every = parse(text, asked.T), all_patterns(asked.T)
    require(f.is_boolean, "formula", "a function with the values 0 and 1", text)
    right = _target(asked)(every) > 0.5
    return _compared(asked, f(every) > 0.5, right, f"all 2^{asked.T} inputs compared")


def _cover(asked: Exercise, centres: Any) -> dict[str, Any]:
    """Whether every word is near a centre, or a word that is not."""

    texts = isinstance(centres, list) and all(isinstance(word, str) for word in centres)
    require(texts, "centres", f"a list of words of {asked.T} bits", centres)
    require(centres, "centres", "at least one word", "an empty list")
    for word in centres:
        fits = len(word) == asked.T and set(word) <= {"0", "1"}
        require(fits, "centres", f"words of {asked.T} characters 0 and 1", word)
    chosen = np.array([[int(bit) for bit in word] for word in dict.fromkeys(centres)], np.uint8)
    every = all_patterns(asked.T)
    away = (every[:, None] != chosen[None]).sum(axis=2).min(axis=1)
    lost = np.flatnonzero(away > COVER_RADIUS)
    if len(lost):
        row = int(lost[0])
        return {
            "verdict": "counterexample",
            "method": f"{len(lost)} of 2^{asked.T} words are too far from every centre",
            "counterexample": tuple(t for t in range(asked.T) if row >> t & 1),
            "wanted": f"a centre at distance {COVER_RADIUS}",
            "got": f"the nearest at distance {int(away[row])}",
        }
    method = f"distances of all 2^{asked.T} words"
    if len(chosen) > COVER_SIZE:
        reason = f"{len(chosen)} centres, wanted at most {COVER_SIZE}"
        return {"verdict": "limit", "method": method, "reason": reason}
    return {"verdict": "proved", "method": method}


def _weights(asked: Exercise, model: Any) -> dict[str, Any]:
    """The proofs of `capax.decompile` against the wanted function; then the limits."""
    from capax.attention.readout import ClsMLP, ClsScalar
    from capax.attention.transformer import Transformer
    from capax.decompile.proof.all_inputs import on_all_inputs
    from capax.decompile.reading.oracle import oracle

    kinds = (Transformer,) if asked.trained else (ClsScalar, ClsMLP, Transformer)
    wanted = "a network of capax train" if asked.trained else "a network of Capax"
    require(isinstance(model, kinds), "answer", wanted, type(model).__name__)
    known = oracle(model)
    require(known.T == asked.T, "T", f"a network for {asked.T} bits", known.T)
    require(known.alphabet == 2, "alphabet", "bits", f"{known.alphabet} symbols")
    f = _target(asked)
    found = on_all_inputs(known, f, np.random.default_rng(0), p=0.5)
    if found.status == "refuted":
        assert found.counterexample is not None
        bits = np.zeros((1, asked.T), np.uint8)
        bits[0, list(found.counterexample)] = 1
        right = int(f(bits)[0] > 0.5)
        return {"verdict": "counterexample", "method": found.method, "wanted": str(right),
                "counterexample": found.counterexample, "got": str(1 - right)}  # fmt: skip
    facts = {"method": found.method, "margin": found.margin}
    if found.status == "open":
        return {**facts, "verdict": "open", "reason": "neither proved nor refuted"}
    reason = _limits(asked, model, found.margin or 0.0)
    return {**facts, "verdict": "limit" if reason else "proved", "reason": reason}


def _limits(asked: Exercise, model: Any, margin: float) -> str:
    """The limit that a right answer exceeds, or an empty text; numbers are rounded outward."""
    from capax.attention.readout import ClsMLP, ClsScalar
    from capax.compiler.certificate.norm_table import measured_norms, norm_error
    from capax.compiler.proof.output_range import scalar_direction
    from capax.compiler.proof.tables import head_tables

    if asked.norm is None and asked.units is None:
        return ""
    if asked.units is not None:
        require(isinstance(model, ClsScalar | ClsMLP), "answer", "a head of Capax", type(model))
        units = model.b_1.shape[0] if isinstance(model, ClsMLP) else 0
        return "" if units <= asked.units else f"{units} units, wanted at most {asked.units}"
    if not isinstance(model, ClsScalar):
        raise InputError(
            f"answer: wanted a head with a scalar read-out, got {type(model).__name__}"
        )
    assert asked.norm is not None and asked.value is not None
    norm = measured_norms(model)["W_QK"]["frobenius"] * (1 + norm_error(model))
    tables, direction = head_tables(model), scalar_direction(model)
    ends = (tables.values @ direction, tables.cls_value[None] @ direction)
    value = max(float(max(np.abs(e.low).max(), np.abs(e.high).max())) for e in ends)
    if margin < asked.margin:
        return f"margin {margin:.6g}, wanted at least {asked.margin:g}"
    if norm > asked.norm:
        return f"Frobenius norm of W_QK {norm:.6g}, wanted at most {asked.norm:g}"
    return "" if value <= asked.value else f"value {value:.6g}, wanted at most {asked.value:g}"
