"""Faults that hurt a proof, a bound or a statistic, planted in a source text one at a time.

A mutant is a replacement of one expression or statement. The operators are the slips that a proof
does not survive: outward rounding dropped, a slack or a union-bound term dropped, a share of delta
not divided, a factor or a `+ 1` lost, a maximum for a sum, swapped ends of an interval, a strict
comparison for a weak one, an argument ignored, a validation skipped.

Four kinds of places are left out, because a fault there cannot make a number wrong:
- text that people read: strings, annotations, docstrings, exceptions, functions that return text
  and calls of such functions (`TELLING`), keyword arguments that carry text;
- limits on work, sizes of blocks and waiting times (`EFFORT`): by design no result depends on them;
- the order of two arguments of a symmetric function (`SYMMETRIC`);
- truth values that switch an option on or off: keyword arguments and defaults of fields. The
  operator "argument ignored" already drops such arguments.
"""

import ast
import copy
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

TEXT = {"latex", "text", "symbol", "statement", "source", "description", "help", "title", "label",
        "note", "notes", "predictor", "words", "message", "reason", "doc", "what", "why",
        "unit"}  # fmt: skip
OPTIONS = {"exist_ok", "parents", "missing_ok", "sort_keys", "allow_nan", "indent", "repr",
           "compare", "default_factory", "encoding", "errors", "daemon", "copy",
           "stacklevel"}  # fmt: skip
EFFORT = re.compile(
    "max|most|batch|block|chunk|patience|tick|glance|timeout|seconds|longest|entries|numbers|wave"
    "|few|sorted|draws|resamples|pilot|rounds|steps|zooms|start|limit|wait|cache|at_once",
    re.IGNORECASE,
)
TELLING = {"one_line", "shown", "counted", "number", "print", "echo", "warn"}
SYMMETRIC = {"max", "min", "maximum", "minimum", "logaddexp", "hypot", "gcd", "add", "multiply",
             "array_equal", "union", "dot", "vdot", "isclose", "allclose"}  # fmt: skip
OTHER_NAME = {
    "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "amax": "amin",
    "amin": "amax", "ceil": "floor", "floor": "ceil", "sum": "max", "fsum": "max", "any": "all",
    "all": "any", "low": "high", "high": "low", "lower": "upper", "upper": "lower", "sf": "cdf",
    "isf": "ppf", "cumsum": "asarray", "argmax": "argmin", "argmin": "argmax",
}  # fmt: skip
ROUNDING = {"nextafter", "up", "down", "outward", "round_up", "round_down", "rounded_up",
            "rounded_down", "widened", "digits_up", "digits_down"}  # fmt: skip
LIBRARIES = {"np", "jnp", "math"}
FUNCTIONS = {"abs", "sqrt", "log1p", "expm1"}
COMPARISON = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
              ast.NotEq: ast.Eq}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One planted fault: the text between two offsets of a file is replaced."""

    path: str
    line: int
    operator: str
    start: int
    end: int
    before: str
    after: str
    key: str  # of the texts alone: it stays when lines above come or go

    def applied(self, source: str) -> str:
        """The source with the fault in it."""
        return source[: self.start] + self.after + source[self.end :]

    @property
    def name(self) -> str:
        """One line that says where the fault is and what it replaces."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.path}:{self.line} {self.operator}: {before[:60]} -> {after[:60]}"


def mutants(path: str, source: str) -> list[Mutant]:
    """All faults that the operators can plant in `source`; each still parses and differs."""
    offsets, lines = _line_offsets(source), source.splitlines()
    tree = ast.parse(source)
    parts = [(offsets[n.lineno - 1], offsets[n.end_lineno]) for n in tree.body]

    def offset(line: int, column: int) -> int:
        text = source[offsets[line - 1] : offsets[line]]
        return offsets[line - 1] + len(text.encode()[:column].decode())

    found: dict[tuple[int, int, str], Mutant] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    for node in _calculating(tree):
        for operator, after in _faults(node):
            start = offset(node.lineno, node.col_offset)
            end = offset(node.end_lineno, node.end_col_offset)
            before, line = source[start:end], lines[node.lineno - 1].strip()
            if after == before or (start, end, after) in found:
                continue
            texts = (path, operator, line, before, after)
            seen[texts] += 1
            key = hashlib.sha256("\0".join((*texts, str(seen[texts]))).encode()).hexdigest()[:16]
            mutant = Mutant(path, node.lineno, operator, start, end, before, after, key)
            first, last = next(part for part in parts if part[0] <= start < part[1])
            if _parses(source[first:start] + after + source[end:last]):  # the rest did already
                found[start, end, after] = mutant
    return list(found.values())


def _line_offsets(source: str) -> list[int]:
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return offsets


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _calculating(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that take part in a calculation: no annotations, no text, no limits on work."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _left_out(tree, child):
                continue
            if hasattr(child, "lineno"):
                yield child
            yield from _calculating(child)


def _left_out(parent: ast.AST, child: ast.AST) -> bool:
    """Whether no number depends on this node (the module's text gives the kinds)."""
    if isinstance(child, ast.JoinedStr | ast.Raise):
        return True
    if isinstance(child, ast.FunctionDef):
        returned = "" if child.returns is None else ast.unparse(child.returns)
        texts = ("str", "list[str]", "tuple[str, ...]")
        return returned in texts or child.name in ("__repr__", "__str__")
    if isinstance(child, ast.AnnAssign) and child.value is None:
        return True
    if isinstance(child, ast.keyword):
        return child.arg in TEXT | OPTIONS or _is_effort(child.arg or "", child.value)
    if isinstance(child, ast.Assign | ast.AnnAssign):
        target = child.targets[0] if isinstance(child, ast.Assign) else child.target
        return isinstance(parent, ast.Module | ast.ClassDef) and (
            _is_effort(ast.unparse(target), child.value)
        )
    if isinstance(parent, ast.arguments):
        return _is_truth(child) or any(_is_effort(n, v) and v is child for n, v in _given(parent))
    if isinstance(child, ast.Call):
        return _name_of(child.func) in TELLING
    return isinstance(parent, ast.keyword | ast.AnnAssign) and _is_truth(child)


def _given(arguments: ast.arguments) -> Iterator[tuple[str, ast.AST | None]]:
    """Names of arguments with their defaults."""
    places = [*arguments.posonlyargs, *arguments.args]
    places = [*places[len(places) - len(arguments.defaults) :], *arguments.kwonlyargs]
    values = [*arguments.defaults, *arguments.kw_defaults]
    return ((place.arg, value) for place, value in zip(places, values, strict=True))


def _name_of(called: ast.AST) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _is_effort(name: str, value: ast.AST | None) -> bool:
    return EFFORT.search(name) is not None and isinstance(value, ast.Constant | ast.BinOp)


def _is_truth(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _faults(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Pairs (operator, new text) for one node."""
    if isinstance(node, ast.BinOp):
        yield from _of_products_and_sums(node)
    elif isinstance(node, ast.Constant):
        yield from _of_constants(node)
    elif isinstance(node, ast.Call):
        yield from _of_calls(node)
    elif isinstance(node, ast.Attribute) and node.attr in OTHER_NAME:
        changed = copy.copy(node)
        changed.attr = OTHER_NAME[node.attr]
        yield _kind_of_name(node.attr), ast.unparse(changed)
    elif isinstance(node, ast.Compare):
        yield from _of_comparisons(node)
    elif isinstance(node, ast.BoolOp):
        changed = copy.copy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "other connective", f"({ast.unparse(changed)})"
        for value in node.values:
            yield "condition alone", f"({ast.unparse(value)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield "sign or negation dropped", f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Expr) and _is_validation(node.value):
        yield "validation skipped", "pass"
    elif _is_pair(node):
        first, second = map(ast.unparse, node.elts)
        yield "swapped ends", f"({second}, {first})"
    elif isinstance(node, ast.IfExp) and not _speaks(node):
        yield "branch alone", f"({ast.unparse(node.body)})"
        yield "branch alone", f"({ast.unparse(node.orelse)})"


def _is_pair(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Tuple)
        and len(node.elts) == 2
        and isinstance(node.ctx, ast.Load)
        and not any(_is_text(part) or isinstance(part, ast.Starred) for part in node.elts)
    )


def _of_products_and_sums(node: ast.BinOp) -> Iterator[tuple[str, str]]:
    left, right = f"({ast.unparse(node.left)})", f"({ast.unparse(node.right)})"
    if isinstance(node.op, ast.Add):
        yield "term dropped", left
        yield "term dropped", right
    elif isinstance(node.op, ast.Sub):
        yield "term dropped", left
    elif isinstance(node.op, ast.Mult | ast.MatMult):
        yield "factor dropped", left
        if isinstance(node.op, ast.Mult):
            yield "factor dropped", right
    elif isinstance(node.op, ast.Div | ast.FloorDiv):
        yield "share not divided", left
    elif isinstance(node.op, ast.Pow):
        yield "power dropped", left


def _of_constants(node: ast.Constant) -> Iterator[tuple[str, str]]:
    if isinstance(node.value, bool):
        yield "other truth value", str(not node.value)
    elif isinstance(node.value, int) and abs(node.value) < 1000:
        yield "constant one less", f"({node.value - 1})"
        if node.value > 1:
            yield "constant halved", str(node.value // 2)
    elif isinstance(node.value, float) and node.value:
        yield "constant halved", repr(node.value / 2)


def _of_calls(node: ast.Call) -> Iterator[tuple[str, str]]:
    called, name = node.func, _name_of(node.func)
    if name in ROUNDING and node.args:
        yield "rounding dropped", f"({ast.unparse(_rounded(node))})"
    if name in FUNCTIONS and node.args:
        yield "function dropped", f"({ast.unparse(node.args[0])})"
    if isinstance(called, ast.Name) and name in OTHER_NAME:
        changed = copy.copy(node)
        changed.func = ast.Name(OTHER_NAME[name], ast.Load())
        yield _kind_of_name(name), ast.unparse(changed)
    if len(node.args) == 2 and not node.keywords and not _is_symmetric(name, node.args):
        changed = copy.copy(node)
        changed.args = node.args[::-1]
        yield "swapped ends", ast.unparse(changed)
    for keyword in node.keywords:
        if keyword.arg is not None and not _left_out(node, keyword):
            changed = copy.copy(node)
            changed.keywords = [other for other in node.keywords if other is not keyword]
            yield "argument ignored", ast.unparse(changed)


def _rounded(node: ast.Call) -> ast.expr:
    """What a call rounds: the first argument of a function, the object of a method."""
    called = node.func
    if isinstance(called, ast.Attribute) and getattr(called.value, "id", "") not in LIBRARIES:
        return called.value
    return node.args[0]


def _is_symmetric(name: str, arguments: list[ast.expr]) -> bool:
    """Whether the order means nothing, or the swap only makes a call that must fail."""
    if name in SYMMETRIC or name in ("isinstance", "issubclass", "getattr", "hasattr"):
        return True
    return any(isinstance(a, ast.JoinedStr) or _is_text(a) for a in arguments)


def _is_text(node: ast.AST) -> bool:
    return isinstance(getattr(node, "value", None), str) or getattr(node, "id", "") in TEXT


def _kind_of_name(name: str) -> str:
    return "swapped ends" if name in ("low", "high", "lower", "upper") else "other extreme"


def _of_comparisons(node: ast.Compare) -> Iterator[tuple[str, str]]:
    for place, kind in enumerate(map(type, node.ops)):
        if kind in COMPARISON:
            changed = copy.copy(node)
            changed.ops = [*node.ops[:place], COMPARISON[kind](), *node.ops[place + 1 :]]
            yield "edge of a comparison", f"({ast.unparse(changed)})"
    yield "condition dropped", "True"
    yield "condition dropped", "False"


def _speaks(node: ast.AST) -> bool:
    """Whether an expression holds text, which people read and proofs do not use."""
    return any(
        isinstance(part, ast.JoinedStr) or isinstance(getattr(part, "value", None), str)
        for part in ast.walk(node)
    )


def _is_validation(value: ast.AST) -> bool:
    name = getattr(getattr(value, "func", None), "id", "")
    return isinstance(value, ast.Call) and name.startswith(("require", "check", "_check", "refuse"))
