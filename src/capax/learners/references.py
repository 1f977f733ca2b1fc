"""References to the user's learner: `path/to/file.py:name`, `package.module:name` or a dotted name.

No other module is imported. An error names the line in the user's file.
"""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from capax.errors import InputError, shown

_PACKAGE = Path(__file__).parents[1]


def is_reference(text: str) -> bool:
    """Whether `text` names a learner outside the zoo: a file or a dotted name."""
    return ":" in text or "." in text


def load(text: str) -> Any:
    """The object that `text` names. Raises `InputError` with the user's line if it fails."""
    module, name = _parts(text)
    found: Any = _from_file(Path(module)) if module.endswith(".py") else _from_name(module)
    for part in name.split("."):
        found = _attribute(found, part, module)
    return found


def _attribute(found: Any, part: str, module: str) -> Any:
    try:
        return getattr(found, part)
    except AttributeError:
        here = [n for n in vars(found) if not n.startswith("_")] if _is_module(found) else []
        known = f"; it has {', '.join(here[:8])}" if here else ""
        raise InputError(f"learner: {module} has no {part!r}{known}") from None
    except Exception as error:  # a module may compute its names and fail
        raise InputError(f"learner: {user_line(error)}") from None


def source_digest(text: str) -> str:
    """A hash of the file of `text`: another source is another learner."""
    module, _ = _parts(text)
    if module.endswith(".py"):
        return _hash_of(Path(module))
    found = importlib.util.find_spec(module)
    return _hash_of(Path(found.origin)) if found and found.origin else ""


def _hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def file_digest(text: object) -> str:
    """A hash of the user's file for `path/to/file.py:name`, "" for other references.

    The file is not imported: its errors are reported when the learner is loaded.
    """
    module = text.rpartition(":")[0] if isinstance(text, str) else ""
    return _hash_of(Path(module)) if module.endswith(".py") else ""


def user_line(error: BaseException) -> str:
    """`mine.py, line 12: ValueError: ...`: the last executed line of the user's file."""
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{_short(error.filename)}, line {error.lineno}"
        return f"{where}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_theirs(frame.filename)]
    message = " ".join(str(error).split())
    what = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if len(what) > 300:
        what = what[:297] + "..."
    if not own:
        return what
    return f"{_short(own[-1].filename)}, line {own[-1].lineno}: {what}"


def _parts(text: str) -> tuple[str, str]:
    if ":" in text:
        module, _, name = text.rpartition(":")
    else:
        module, _, name = text.rpartition(".")
    if not module or not name or name.startswith("_"):
        raise InputError(f"learner: wanted file.py:name or package.module.name, got {shown(text)}")
    return module, name


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"learner: file not found: {path}")
    name = "capax_user_" + hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # so that it may import its neighbours
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"learner: wanted a Python file, got {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise InputError(f"learner: {user_line(error)}") from None
    return module


def _from_name(module: str) -> Any:
    """The module, or an attribute of one, such as `package.module.Class.make`."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        extra = "; pip install 'capax[learners]'" if missing.startswith("sklearn") else ""
        raise InputError(f"learner: no module {missing!r}{extra}") from None
    except Exception as error:
        raise InputError(f"learner: {user_line(error)}") from None


def _is_module(found: Any) -> bool:
    return isinstance(found, ModuleType)


def _is_theirs(filename: str) -> bool:
    """Whether a file belongs to the user: not to Capax, a package or the interpreter."""
    path = Path(filename)
    installed = "site-packages" in path.parts or filename.startswith("<frozen")
    return not installed and _PACKAGE not in path.parents and not filename.startswith(sys.prefix)


def _short(filename: str) -> str:
    return Path(filename).name
