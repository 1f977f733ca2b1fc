"""CUDA source to PTX by NVRTC, NVIDIA's compiler library, a part of JAX's CUDA packages."""

import ctypes
import hashlib
import importlib.util
import os
from contextlib import suppress
from pathlib import Path

from capax.errors import InputError
from capax.files import cache_folder, write_atomically


class NvrtcError(Exception):
    """The library is missing, or it refused the source; the message gives the reason."""


_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
_CUDA = Path("/usr/local")


def _candidates() -> list[str]:
    """Where the library may be: NVIDIA's Python packages, a CUDA folder, the system's search."""
    spec = importlib.util.find_spec("nvidia")
    packages = (
        [Path(package) for package in (spec.submodule_search_locations or [])] if spec else []
    )
    folders = [package / part / "lib" for package in packages for part in ("cu13", "cuda_nvrtc")]
    home = os.environ.get("CUDA_HOME")
    folders += [Path(home) / "lib64"] if home else []
    folders += [*_CUDA.glob("cuda/lib64"), *_CUDA.glob("cuda-*/targets/*/lib")]
    files = [folder / name for folder in folders for name in _NAMES]
    return [str(file) for file in files if file.exists()] + list(_NAMES)


def _library() -> ctypes.CDLL:
    for name in _candidates():
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NvrtcError("NVRTC (libnvrtc.so) was not found; JAX's CUDA packages contain it")


def version() -> tuple[int, int]:
    """(major, minor) of the library; (0, 0) without one."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "version")
    except NvrtcError:
        return 0, 0
    return major.value, minor.value


def _check(code: int, what: str, log: str = "") -> None:
    if code != 0:
        raise NvrtcError(f"NVRTC: {what} failed with code {code}{log and ': ' + log}")


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, buffer), what)
    return buffer.value.decode()


def to_ptx(source: str, headers: dict[str, str], options: list[str]) -> str:
    """PTX of `source`, whose includes are `headers` by name; `NvrtcError` if that fails."""
    library = _library()
    program = ctypes.c_void_p()
    many = ctypes.c_char_p * len(headers)
    texts = many(*(text.encode() for text in headers.values()))
    names = many(*(name.encode() for name in headers))
    made = library.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"step.cu", len(headers), texts, names
    )
    _check(made, "create")
    try:
        chosen = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        code = library.nvrtcCompileProgram(program, len(options), chosen)
        _check(code, "compile", _text(library, program, "ProgramLog") if code else "")
        return _text(library, program, "PTX")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def identity(source: str, headers: dict[str, str], options: list[str]) -> str:
    """A name for the result of these sources and options."""
    text = repr((source, sorted(headers.items()), options))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def kept_ptx(source: str, headers: dict[str, str], options: list[str]) -> str:
    """`to_ptx`, stored on disk; without a writable folder it is compiled every time."""
    name = f"{identity(source, headers, options)}.ptx"
    with suppress(OSError, InputError):
        return (cache_folder() / "kernels" / name).read_text()
    text = to_ptx(source, headers, options)
    with suppress(OSError, InputError):
        folder = cache_folder() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, lambda file: file.write(text.encode()))
    return text
