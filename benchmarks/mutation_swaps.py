"""A fault in a process that has imported everything already: the code of one function is replaced.

To import the package and the tests takes longer than most tests. A worker therefore collects the
tests once, and a process that it forks replaces the code of the function that holds the fault, in
every function object that has this code: whoever imported, wrapped or decorated it holds that same
object. A fault outside of functions (a constant, a field, a default) needs a process that has not
imported the module; so does a function whose code cannot be found or replaced.
"""

import ast
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

from mutation_operators import Mutant


def swapped(mutant: Mutant, copy: str, original: str) -> bool:
    """Whether the fault is in force in this process: its module is not yet imported, or swapped."""
    file = str(Path(copy) / mutant.path)
    if not any(getattr(module, "__file__", None) == file for module in list(sys.modules.values())):
        return True
    name = function_around(mutant, original)
    if name is None:
        return False
    new = [code for code in _codes(compile(mutant.applied(original), file, "exec"))
           if code.co_qualname == name]  # fmt: skip
    gc.unfreeze()
    live = [f for f in gc.get_objects() if type(f) is FunctionType and _is(f.__code__, file, name)]
    if len(new) != 1 or len({id(f.__code__) for f in live}) != 1:
        return False
    try:
        for function in live:
            function.__code__ = new[0]
    except ValueError:  # another number of free variables
        return False
    return True


def function_around(mutant: Mutant, original: str) -> str | None:
    """The qualified name of the outermost function with the fault in its body; None: there is none.

    Names are counted: where a name is defined twice, no one knows which is meant.
    """
    before = original[: mutant.start]
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2].encode())
    found = []
    for name, node in _functions(ast.parse(original).body, ""):
        first, last = node.body[0], node.body[-1]
        begins = (first.lineno, first.col_offset) <= (line, column)
        if begins and (line, column) < (last.end_lineno or 0, last.end_col_offset or 0):
            found.append(name)
    return found[0] if found else None


def _functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions of a module and methods of its classes, by their qualified names."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _is(code: CodeType, file: str, name: str) -> bool:
    return code.co_qualname == name and code.co_filename == file
