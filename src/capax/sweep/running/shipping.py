"""Files of the user that the workers of a cluster need: learners (`file.py:name`) and data.

They are copied into a folder under the same relative paths, which is the working directory of every
worker. A path outside this folder (absolute, or with `..`) is not copied: such a file must have the
same path on every machine.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from capax.errors import require

MOST_BYTES = 256 * 2**20
"""Ray refuses working directories of more than half a gigabyte."""


def files_of(learners: Iterable[str], data: Iterable[str] = ()) -> tuple[Path, ...]:
    """Relative paths among learners and data files, and the Python files beside a learner's."""
    found: dict[Path, None] = {}
    for name in learners:
        module, colon, _ = name.rpartition(":")
        if colon and module.endswith(".py"):
            folder = Path(module).parent
            found.update(dict.fromkeys([Path(module), *sorted(folder.glob("*.py"))]))
    found.update(dict.fromkeys(Path(name) for name in data))
    inside = (p for p in found if not p.is_absolute() and ".." not in p.parts)
    return tuple(p for p in inside if p.is_file())


def staged(files: Iterable[Path], folder: Path) -> Path | None:
    """`folder` with copies of the files, or None without files."""
    files = tuple(files)
    size = sum(path.stat().st_size for path in files)
    wanted = f"files of at most {MOST_BYTES >> 20} MiB for the workers"
    require(size <= MOST_BYTES, "--on ray", wanted, f"{size / 2**20:.0f} MiB")
    for path in files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / path)
    return folder if files else None
