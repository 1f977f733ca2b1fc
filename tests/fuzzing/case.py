"""A case: a command line and the files it meets."""

import base64
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    """`capax argv` in a folder with these files. `kept`: files that no ending may change, `spared`:
    files that may change only when the command succeeds. `special`: names that are no regular
    files: `fifo`, `folder`, or `link TARGET`."""

    kind: str
    argv: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    special: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        for name, kind in self.special.items():
            if kind == "fifo":
                os.mkfifo(folder / name)
            elif kind == "folder":
                (folder / name).mkdir()
            else:
                (folder / name).symlink_to(kind.removeprefix("link "))

    def to_json(self) -> dict[str, Any]:
        files = {name: base64.b64encode(content).decode() for name, content in self.files.items()}
        fields = {"kind": self.kind, "argv": list(self.argv), "files": files}
        kept = {"kept": list(self.kept), "spared": list(self.spared)}
        return {**fields, **kept, "special": self.special}

    @classmethod
    def read(cls, path: Path) -> "Case":
        fields = json.loads(path.read_text())
        files = {name: base64.b64decode(text) for name, text in fields["files"].items()}
        tuples = {name: tuple(fields[name]) for name in ("argv", "kept", "spared")}
        return cls(fields["kind"], files=files, special=fields.get("special", {}), **tuples)
