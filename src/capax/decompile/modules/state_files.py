"""A PyTorch module from the code that builds it and a table of its tensors."""

import inspect
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from capax.errors import InputError, counted
from capax.foreign import one_line
from capax.learners.references import load, user_line


def module_with(reference: str, tensors: Mapping[str, np.ndarray], T: int | None) -> Any:
    """The module that `file.py:name` builds, with these tensors.

    name: a function or class, called with T if it has such an argument, or a module.
    Raises `InputError` if it cannot be built or the tensors do not fit.
    """
    try:
        import torch
    except ImportError:
        raise InputError("torch: not installed; add it with: pip install 'capax[torch]'") from None
    module = _built(load(reference), T)
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"--module: wanted a torch.nn.Module, got {type(module).__name__}")
    own = module.state_dict()
    _check_names("the file lacks", own.keys() - tensors.keys())
    _check_names("the module has no place for", tensors.keys() - own.keys())
    for name, tensor in own.items():
        if tuple(tensor.shape) != tensors[name].shape:
            told = f"{tuple(tensor.shape)}, got {tensors[name].shape}"
            raise InputError(f"--module: {one_line(name, 60)} has shape {told} in the file")
    state = {n: torch.as_tensor(np.array(tensors[n])).to(t.dtype) for n, t in own.items()}
    module.load_state_dict(state)
    return module.eval()


def _check_names(what: str, names: Collection[str]) -> None:
    if names:
        shown = ", ".join(one_line(name, 60) for name in sorted(names)[:4])
        raise InputError(f"--module: {what} {counted(len(names), 'tensor')}: {shown}")


def _built(thing: Any, T: int | None) -> Any:
    is_module = hasattr(thing, "state_dict") and not inspect.isclass(thing)
    if is_module or not callable(thing):
        return thing
    try:
        takes = "T" in inspect.signature(thing).parameters
        if takes and T is None:
            raise InputError("-T: give the number of input bits that the module is built with")
        arguments = {"T": T} if takes else {}
        return thing(**arguments)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"--module: {user_line(error)}") from None
