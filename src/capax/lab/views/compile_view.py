"""The view Compile: a formula becomes a head; temperature and single weights can be changed."""

import shlex
import tempfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from capax.data.spec_base import Spec
from capax.errors import InputError, require
from capax.lab.views.bit_ranges import ranges_of

MAX_T = 100_000
MAX_RELEVANT = 8
"""Most relevant bits: the page draws all their patterns in every frame. Commands allow more."""
MAX_ROWS = 64
"""Number of patterns of the relevant bits that are attacked, those with the smallest margin."""
RUNGS = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, MAX_T)


class HeadQuestion(Spec):
    """A formula, a context length, and the changes to the compiled head.

    `temperature` divides all scores. `weight`, `value`: the name of one weight and its new number.
    """

    formula: str = Field(default="maj(x1, x5, x9)", max_length=4096)
    T: int = Field(default=50, ge=1, le=MAX_T)
    encoding: Literal["deterministic", "bag"] = "deterministic"
    temperature: float = Field(default=1.0, ge=0.01, le=100, allow_inf_nan=False)
    weight: str = ""
    value: float = Field(default=0.0, allow_inf_nan=False)

    @property
    def is_changed(self) -> bool:
        """Whether the head differs from the output of `capax compile`."""
        return self.temperature != 1.0 or self.weight != ""

    @property
    def command(self) -> str:
        """The command with the same numbers."""
        if self.is_changed:
            return "capax verify head.safetensors --json"
        words = ["capax", "compile", self.formula, "-T", str(self.T), "--dry-run", "--json"]
        kind = [] if self.encoding == "deterministic" else ["--encoding", self.encoding]
        return shlex.join([*words, *kind])


def compiled_head(question: HeadQuestion) -> Any:
    """`capax.compile`, then the changes; certified by the compiler's own function."""
    from capax.compiler import Compiled, certify
    from capax.compiler import compile as compile_function
    from capax.compiler.construction.assemble import assemble
    from capax.lab.views.changed_head import at_temperature, with_weight

    _require_few_bits(question.formula, question.T)
    compiled = compile_function(question.formula, question.T, encoding=question.encoding)
    if not question.is_changed:
        return compiled
    construction = at_temperature(compiled.construction, question.temperature)
    if question.weight:
        construction = with_weight(construction, question.weight, question.value)
    certificate = certify(construction, compiled.certificate.function, None)
    return Compiled(assemble(construction), certificate, construction)


def _require_few_bits(formula: str, T: int) -> None:
    from capax.compiler.compiling import understood

    s = understood(formula, T).s
    wanted = f"at most {MAX_RELEVANT} relevant bits (capax compile allows more)"
    require(s <= MAX_RELEVANT, "formula", wanted, s)


def head_answer(question: HeadQuestion) -> dict[str, Any]:
    """The certificate and the numbers that the head is drawn from.

    `proved`: whether every decision is right on all inputs. If not, the certificate's counts of
    wrong decisions and of samples are not valid and are left out.
    """
    from capax.lab.views.changed_head import named_weights

    compiled = compiled_head(question)
    certificate = compiled.certificate.to_json()
    proved = compiled.certificate.margin is None or compiled.certificate.margin > 0
    if not proved:
        certificate |= {"wrong_decisions": None, "sample_size": {}, "capacity": {}}
    return {
        "certificate": certificate,
        "proved": proved,
        "head": drawn_head(compiled.construction),
        "weights": named_weights(compiled.construction)
        | ({question.weight: question.value} if question.weight else {}),
        "command": question.command,
    }


def drawn_head(construction: Any) -> dict[str, Any]:
    """Parameters, values and read-out, from which the page draws the weights of an input."""
    from capax.compiler.parts.readouts import ScalarReadout

    head, f, readout = construction.selection, construction.function, construction.readout
    scalar = isinstance(readout, ScalarReadout)
    fields = ("nu", "cls_value", "scale") if scalar else (
        "position_values", "cls_values", "W_1", "b_1", "w_2", "b_2")  # fmt: skip
    return {
        "T": head.T,
        "support": list(f.support),
        "table": f.table.tolist(),
        "boolean": f.is_boolean,
        "bag": head.is_bag,
        "beta": head.beta,
        "a": head.a,
        "D": head.D,
        "omega": head.omega,
        "cut": 0.0 if scalar else 0.5,
        "scalar": scalar,
        "readout": {name: np.asarray(getattr(readout, name)).tolist() for name in fields},
    }


def ladder_answer(question: HeadQuestion) -> dict[str, Any]:
    """The drawn head at some context lengths; between them a page interpolates while T moves."""
    from capax.compiler.compiling import understood
    from capax.compiler.construction.choice import choose

    _require_few_bits(question.formula, MAX_T)
    least = max(understood(question.formula, MAX_T).support, default=0) + 1
    lengths = [T for T in RUNGS if least < T]
    rungs = []
    for T in [max(least, 1), *lengths]:
        f = understood(question.formula, T)
        rungs.append(drawn_head(choose(f, question.encoding, "auto", None, None)))
    return {"rungs": rungs}


def break_answer(question: HeadQuestion) -> dict[str, Any]:
    """The input whose output comes nearest to a wrong decision, and whether it is one.

    At each pattern of the relevant bits an ascent searches for irrelevant bits that move the output
    towards the wrong side; outputs far on the right side do not count. The output is enclosed, so
    `fails` is proved. Finding no failing input proves nothing; the certificate's margin does.
    """
    from capax.attention import ClsScalar
    from capax.compiler.certificate.certificate import targets
    from capax.compiler.proof.adversary import attack
    from capax.compiler.proof.evaluation import output_bounds
    from capax.compiler.proof.output_range import output_range
    from capax.compiler.proof.tables import head_tables, readout_output

    compiled = compiled_head(question)
    model, f = compiled.model, compiled.construction.function
    require(
        f.is_boolean, "formula", "a Boolean function (other functions make no decisions)", str(f)
    )
    tables, signed = head_tables(model), isinstance(model, ClsScalar)
    wanted, cut = targets(f, signed=signed), 0.0 if signed else 0.5
    low, high = output_range(model, tables, f.support)
    reach = np.where(wanted > cut, low - cut, cut - high)
    best: tuple[float, Any] = (np.inf, None)
    for row in np.argsort(reach, kind="stable")[:MAX_ROWS].tolist():
        side = np.minimum if wanted[row] > cut else np.maximum

        def clipped(u: np.ndarray, side: Any = side, goal: float = float(wanted[row])) -> Any:
            return side(readout_output(model, u), goal)

        found = attack(tables, f.support, wanted, clipped, rows=[row])
        below, above = (float(x[0]) for x in output_bounds(model, tables, found.bits[None]))
        gap = above - cut if wanted[row] > cut else cut - below
        best = min(best, (gap, (found.bits, row, below, above)), key=lambda pair: pair[0])
    bits, row, below, above = best[1]
    return {
        "fails": best[0] <= 0,
        "on": ranges_of(bits),
        "wanted": float(wanted[row]),
        "output": [below, above],
        "margin": compiled.certificate.margin,
    }


def weights_file(question: HeadQuestion) -> bytes:
    """The file that `capax verify` accepts. Raises `InputError` for a head that decides wrongly."""
    from capax.compiler import save_compiled

    compiled = compiled_head(question)
    margin = compiled.certificate.margin
    if margin is not None and margin <= 0:
        raise InputError(
            "download: this head is not proved right on all inputs "
            f"(margin {margin:.4g}); reset the temperature and the weight"
        )
    with tempfile.TemporaryDirectory() as folder:
        return save_compiled(Path(folder) / "head.safetensors", compiled).read_bytes()
