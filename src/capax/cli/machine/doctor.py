"""`capax doctor`: tests of all parts that Capax needs on this machine."""

import importlib
import os
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit
from capax.errors import counted
from capax.foreign import one_line
from capax.machine import num_cores
from capax.terminal import Terminal

if TYPE_CHECKING:
    from capax.sweep.storage.salvage import Remains

REQUIRED = (
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "jaxtyping",
    "numpy",
    "scipy",
    "pydantic",
    "safetensors",
    "matplotlib",
    "pandas",
)
# extra -> (package to import, what it is for)
EXTRAS = {
    "torch": ("torch", "export to PyTorch, the PyTorch columns of `capax bench`"),
    "ray": ("ray", "`capax sweep --on ray`"),
}


def doctor(
    store: Annotated[Path | None, typer.Argument(help="A store: show its readable rows.")] = None,
    json: JsonFlag = False,
) -> None:
    """Test this machine: Python, JAX, devices, memory, cache folder, optional extras.

    Each part is used: JAX multiplies two matrices on every device, a file is written to the cache
    folder, the extras are imported. Exit code 1 if a required part fails.

    With a STORE, examine this file instead: is it a store, is it intact, and if not, which rows of
    which table are readable (`capax export` saves them). The file is not changed.

    Example: `capax doctor --json`
    """
    if store is not None:
        _examine_store(store, json)
        return
    report = examine()
    emit(report, json, lambda console: _render(report, console))
    if not report["ok"]:
        raise typer.Exit(1)


def _examine_store(path: Path, as_json: bool) -> None:
    from capax.sweep.storage.salvage import examine as look

    remains = look(path)
    emit(remains.to_json(), as_json, lambda console: _render_store(remains, console))
    if remains.problem:
        raise typer.Exit(1)


def _render_store(remains: "Remains", console: Terminal) -> None:
    version = "" if remains.schema is None else f", schema version {remains.schema}"
    lines = [f"{remains.path}: {remains.kind}{version}"]
    for left in remains.tables:
        lost = f", at least {left.lost} lost" if left.lost else ""
        why = f" ({left.problem})" if left.problem else ""
        lines.append(f"  {left.table}: {counted(left.rows, 'row')} can be read{lost}{why}")
    lines.append(f"verdict: {remains.problem}" if remains.problem else "verdict: whole")
    if remains.problem and any(t.table == "runs" and t.rows for t in remains.tables):
        lines.append("`capax export STORE --out runs.csv` saves the runs that can be read")
    for line in lines:
        console.print(one_line(line, 400))


def examine() -> dict[str, Any]:
    """The report of `capax doctor` as plain data."""
    packages = {name: _version(name) for name in REQUIRED}
    devices = _devices()
    cache = _cache_folder()
    sound = None not in packages.values() and devices["works"] and cache["writable"]
    return {
        "ok": bool(sound),
        "capax": _version("capax"),
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "platform": platform.platform(),
        "packages": packages,
        "jax": devices,
        "memory": _memory(),
        "cache": cache,
        "extras": {extra: _extra(*what) for extra, what in EXTRAS.items()},
    }


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> dict[str, Any]:
    try:
        import jax
        import jax.numpy as jnp

        devices = jax.devices()
        timings = {}
        for device in devices:
            ones = jax.device_put(jnp.ones((256, 256), jnp.float32), device)
            start = time.perf_counter()
            product = jax.block_until_ready(ones @ ones)
            timings[str(device)] = round(time.perf_counter() - start, 4)
            if float(product[0, 0]) != 256.0:
                return {"works": False, "problem": f"{device} multiplies wrongly"}
        return {"works": True, "backend": jax.default_backend(), "devices": timings}
    except Exception as error:  # any error here is part of the diagnosis
        return {"works": False, "problem": f"{type(error).__name__}: {error}".splitlines()[0]}


def _memory() -> dict[str, Any]:
    import psutil

    memory = psutil.virtual_memory()
    return {
        "total_gib": round(memory.total / 2**30, 1),
        "available_gib": round(memory.available / 2**30, 1),
        "cores": num_cores(),
    }


def _cache_folder() -> dict[str, Any]:
    from capax.errors import InputError
    from capax.files import cache_folder

    try:
        folder = cache_folder()
    except InputError as error:
        return {"path": str(error), "writable": False, "megabytes": 0.0}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".doctor-{os.getpid()}"
        probe.write_text("x")
        probe.unlink()
        writable = True
    except OSError:
        writable = False
    return {"path": str(folder), "writable": writable, "megabytes": _size(folder)}


def _size(folder: Path) -> float:
    return round(sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6, 1)


def _extra(package: str, purpose: str) -> dict[str, Any]:
    try:
        module = importlib.import_module(package)
        return {"works": True, "version": str(module.__version__), "for": purpose}
    except ImportError:
        return {"works": False, "version": None, "for": purpose}


def _render(report: dict[str, Any], console: Terminal) -> None:
    python, memory, cache = report["python"], report["memory"], report["cache"]
    packages = (f"{name} {version or 'MISSING'}" for name, version in report["packages"].items())
    state = "writable" if cache["writable"] else "NOT WRITABLE"
    rows = [
        ("Python", f"{python['version']}  {python['executable']}"),
        ("Machine", f"{report['platform']}, {memory['cores']} cores"),
        ("Memory", f"{memory['total_gib']} GiB, {memory['available_gib']} GiB available now"),
        ("Packages", "  ".join(packages)),
        ("JAX", _describe_jax(report["jax"])),
        ("Cache", f"{cache['path']} ({state}, {cache['megabytes']} MB)"),
    ]
    for name, extra in report["extras"].items():
        found = extra["version"] or f"not installed: pip install 'capax[{name}]'"
        rows.append((f"extra: {name}", f"{found}  ({extra['for']})"))
    verdict = "everything works" if report["ok"] else "a part that Capax needs is broken"
    console.table([*rows, ("Verdict", verdict)], title=f"capax {report['capax']}")


def _describe_jax(jax: dict[str, Any]) -> str:
    if not jax["works"]:
        return f"BROKEN: {jax['problem']}"
    devices = ", ".join(f"{name} ({1000 * s:.0f} ms)" for name, s in jax["devices"].items())
    return f"backend {jax['backend']}; devices that multiplied correctly: {devices}"


def register(app: typer.Typer) -> None:
    """Add `doctor` to the command line."""
    app.command("doctor", epilog="Example: `capax doctor --json`")(doctor)
