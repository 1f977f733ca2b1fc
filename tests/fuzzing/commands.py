"""Command lines: every option of every command, found in the tree of commands itself.

A command starts from values that fit (`GOOD`, else by type) and gets a few hostile ones. A new
command or option is fuzzed from the day it is there.
"""

import functools
import inspect
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, get_args, get_type_hints

from fuzzing import hostile, samples
from fuzzing.case import Case

# By (command, parameter): what makes the command work, and keeps it small.
GOOD: dict[tuple[str, str], tuple[str, ...]] = {
    ("function", "formula"): ("maj(x0,x1,x2)",), ("data", "formula"): ("and2",),
    ("data", "T"): ("7",), ("data", "m"): ("20",), ("data", "validation_size"): ("30",),
    ("cover", "points"): ("points.csv", "points.npy"), ("cover", "eps"): ("1",),
    ("cover", "time_limit"): ("1",), ("bound", "norms"): ("W_QK=2,v=1",),
    ("audit", "checkpoint"): ("gpt2.safetensors", "bert.safetensors"), ("audit", "heads"): ("2",),
    ("audit", "family"): ("gpt2",), ("train", "formula"): ("and2",), ("train", "T"): ("7",),
    ("train", "m"): ("20",), ("sweep", "experiment"): ("small.toml", "smoke"),
    ("sweep", "store"): ("new.sqlite",), ("thresholds", "stores"): ("toy.sqlite",),
    ("thresholds", "store"): ("toy.sqlite",), ("card", "learners"): ("lasso", "tree"),
    ("card", "T"): ("5",), ("card", "store"): ("card.sqlite",), ("card", "jobs"): ("1",),
    ("reference add", "store"): ("toy.sqlite",), ("reference add", "name"): ("mine",),
    ("reference add", "folder"): (".",), ("export", "store"): ("toy.sqlite",),
    ("export", "out"): ("runs.csv", "runs.parquet"), ("compile", "formula"): ("x0 & x2",),
    ("compile", "T"): ("5",), ("verify", "weights"): ("scalar.safetensors", "mlp.safetensors"),
    ("decompile", "model"): ("transformer.safetensors", "scalar.safetensors"),
    ("decompile", "cells"): ("8",), ("figure", "number"): ("1",), ("figure", "out"): ("f.svg",),
    ("report", "stores"): ("toy.sqlite",), ("reproduce", "scale"): ("none",),
    ("doctor", "store"): ("toy.sqlite",),
}  # fmt: skip
RARE = {"figure": 0.05, "report": 0.05, "reproduce": 0.3, "doctor": 0.3, "cite": 0.1}
"""Commands that take seconds (they draw), or that have nothing to fuzz: a share of the cases."""
WRITES = ("out", "plot", "waterfall", "html", "csv", "picture", "store", "lens", "explain", "data")
PATHS = ("/nonexistent/x", "nowhere/x.svg", ".", "..", "empty", "x.png", "x.svg", "x.npz", "x.csv",
         "x.html", "x.parquet", "a b é.svg", "n" * 300, "/dev/null", "/dev/full", "/proc/self/mem",
         "/proc/version", "x.xyz", "~/x", "-")  # fmt: skip


class Option(NamedTuple):
    """A parameter of a command, as far as a case needs it."""

    name: str
    flag: str
    kind: type
    required: bool
    multiple: bool
    choices: tuple[str, ...]


def case(random: Random) -> Case:
    """A command with some of its options, one to three of them hostile."""
    known = commands()
    name = random.choice(list(known))
    while random.random() > RARE.get(name, 1.0):
        name = random.choice(list(known))
    options = known[name]
    bent = set(random.sample(options, min(len(options), random.choice((1, 1, 2, 3)))))
    argv, last = list(name.split()), []
    for option in options:
        given = option.required or option in bent or (name, option.name) in GOOD
        if not given or (not option.required and option not in bent and random.random() < 0.2):
            continue
        value = _hostile(random, option) if option in bent else _good(random, name, option)
        if option.kind is bool:
            argv += [option.flag] if option in bent else []
        elif option.flag:
            argv += [option.flag, value]
        else:
            last += [value] * random.choice((1, 1, 2) if option.multiple else (1,))
    if random.random() < 0.02:
        argv.insert(random.randrange(len(argv) + 1), hostile.text(random))
    if random.random() < 0.15:
        argv.append("--json")
    argv += [*(["--"] if random.random() < 0.7 else []), *last]
    return Case("command", tuple(word.replace("\0", "") for word in argv), samples.good_files())


@functools.cache
def commands() -> dict[str, tuple[Option, ...]]:
    """Every command of the real tree with its options, under its full name."""
    from capax.cli import main

    found: dict[str, tuple[Option, ...]] = {}
    pending = [("", main.commands())]
    while pending:
        name, command = pending.pop()
        inner: dict[str, Any] = getattr(command, "commands", {})
        pending += [(f"{name} {label}".strip(), part) for label, part in inner.items()]
        if name:
            hints = get_type_hints(inspect.unwrap(command.callback))
            found[name] = tuple(_option(p, hints.get(p.name, bool)) for p in command.params)
    return dict(sorted(found.items()))


def _option(parameter: Any, hint: Any) -> Option:
    """From the parameter and the annotation of the function behind it (`list[Path] | None`)."""
    flags = sorted((o for o in parameter.opts if o.startswith("-")), key=len)
    inner = [part for part in get_args(hint) if part is not type(None)]
    while inner:
        hint = inner[0]
        inner = [part for part in get_args(hint) if part is not type(None)]
    choices = tuple(hint) if issubclass(hint, Enum) else ()
    return Option(
        name=parameter.name or "",
        flag=flags[-1] if flags else "",
        kind=hint,
        required=parameter.required,
        multiple=parameter.nargs == -1,
        choices=tuple(map(str, choices)),
    )


def _good(random: Random, command: str, option: Option) -> str:
    files = tuple(samples.good_files())
    known = option.choices or {int: ("3",), float: ("0.5",), Path: files}.get(option.kind, ("x",))
    return random.choice(GOOD.get((command, option.name), known))


def _hostile(random: Random, option: Option) -> str:
    roll = random.random()
    if roll < 0.15:
        return hostile.text(random)
    if option.kind is int:
        return str(random.choice(hostile.INTEGERS)) if roll < 0.9 else str(random.randrange(-9, 99))
    if option.kind is float:
        return str(random.choice(hostile.FLOATS if roll < 0.8 else hostile.INTEGERS))
    if option.kind is Path:
        files = () if option.name in WRITES and roll < 0.8 else tuple(samples.good_files())
        return random.choice(PATHS + files)
    if option.choices and roll < 0.5:
        return random.choice(option.choices)
    numbers = (*hostile.INTEGERS, *hostile.FLOATS)
    if roll < 0.4:
        return ",".join(str(random.choice(numbers)) for _ in range(random.randrange(1, 4)))
    if roll < 0.6:
        return (
            f"W_QK={random.choice(numbers)},W_V={random.choice(numbers)},v={random.choice(numbers)}"
        )
    return hostile.text(random)
