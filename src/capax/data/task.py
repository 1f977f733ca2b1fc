"""A learning problem as a spec, and its data: training set, validation set, hidden support.

    support     I, a uniformly random s-subset of the T positions (or s neighbours, starting
                anywhere; or fixed; or the formula's own)
    inputs      x in {0,1}^T, i.i.d. Bernoulli(p) bits; of a larger alphabet, uniform symbols
    labels      y = f(x_I); training labels are flipped with probability `noise`
    rejection   a training set that leaves more than one placement of f possible is redrawn

All randomness comes from the spec: the key of each part is a hash of the fields and the purpose.
Validation inputs depend on (T, p, size) only, so that all runs of one T and p share one pool.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import UInt8
from pydantic import Field, model_validator

from capax.boolean.consistent.survivors import is_unique
from capax.boolean.functions import SparseFunction, check_support
from capax.boolean.parser import parse
from capax.boolean.random_functions import Key, random_support
from capax.boolean.traits.bias import balancing_probability
from capax.boolean.traits.single_swaps import has_single_swap
from capax.data.distributions import bernoulli_rows, input_rows
from capax.data.glance import without_seen_rival
from capax.data.spec_base import GrownSpec
from capax.errors import InfeasibleError, InputError, require
from capax.identity import key_words
from capax.machine import check_memory

_DATA_FIELDS = ("function", "T", "m", "p", "support", "noise", "seed", "alphabet")


class TaskSpec(GrownSpec):
    """Everything that determines the data of one learning problem, and nothing else.

    `function`: formula or shorthand; `T`: input length; `m`: training examples; `p`: P[bit = 1],
    or "balanced" for the p with P[y = 1] = 1/2 (nearest to 1/2 if there are several), or "uniform"
    (1/2); `alphabet`: symbols of a token, with more than two p must be "uniform" and
    `reject_ambiguous` false; `support`:
    "random", "contiguous" (s neighbours, starting anywhere), "formula" (the positions written in
    the formula) or explicit positions; `noise`: chance that a training label is flipped;
    `max_tries`: training sets drawn before giving up.

    Examples:
        >>> import capax
        >>> capax.TaskSpec(function="maj3", T=20, m=50).probability
        0.5
    """

    later = ("alphabet",)

    function: str = "and3"
    T: int = Field(ge=1, lt=2**31)
    m: int = Field(ge=1, lt=2**31)
    p: float | Literal["balanced", "uniform"] = "balanced"
    support: Literal["random", "contiguous", "formula"] | tuple[int, ...] = "random"
    noise: float = Field(default=0.0, ge=0.0, lt=0.5)
    validation_size: int = Field(default=10_000, ge=0, lt=2**31)
    reject_ambiguous: bool = True
    max_tries: int = Field(default=1000, ge=1, lt=2**31)
    seed: int = Field(default=0, ge=0, lt=2**63)
    alphabet: int = 2

    @model_validator(mode="after")
    def _fields_fit_together(self) -> "TaskSpec":
        f = parsed(self.function, self.alphabet)
        if self.alphabet > 2:
            many = f"for an alphabet of {self.alphabet} symbols"
            require(self.p == "uniform", "p", f'"uniform" {many}', self.p)
            require(not self.reject_ambiguous, "reject_ambiguous", f"false {many}", True)
        require(f.s <= self.T, "T", f"T >= s = {f.s}", self.T)
        if isinstance(self.support, tuple):
            require(len(self.support) == f.s, "support", f"{f.s} positions", self.support)
            check_support(self.support, self.T)
        elif self.support == "formula":
            check_support(f.support, self.T)
        require(0.0 < self.probability < 1.0, "p", "0 < p < 1 or 'balanced'", self.p)
        return self

    @property
    def probability(self) -> float:
        """P[bit = 1], with "balanced" resolved; of a larger alphabet, the chance of each symbol."""
        if self.p == "uniform":
            return 1 / self.alphabet
        return _balanced(self.function) if self.p == "balanced" else float(self.p)

    def training(self) -> "Training":
        """The training set."""
        return draw_training(self)

    @property
    def target(self) -> SparseFunction:
        """The function to learn, on this task's support."""
        return self.rule.on(draw_support(self), self.T)

    @property
    def rule(self) -> SparseFunction:
        """The function to learn, on the positions that its formula names."""
        return parsed(self.function, self.alphabet)


@dataclass(frozen=True)
class Training:
    """A training set, its hidden support, and the number of ambiguous sets drawn before it."""

    support: tuple[int, ...]
    X: UInt8[np.ndarray, "m T"]
    y: UInt8[np.ndarray, " m"]
    rejections: int


@dataclass(frozen=True)
class Task:
    """The data of a `TaskSpec` as plain NumPy arrays."""

    support: tuple[int, ...]
    X_train: UInt8[np.ndarray, "m T"]
    y_train: UInt8[np.ndarray, " m"]
    X_validation: UInt8[np.ndarray, "n T"]
    y_validation: UInt8[np.ndarray, " n"]
    rejections: int


def draw_task(spec: TaskSpec) -> Task:
    """Support, training set and validation set of `spec`.

    Examples:
        >>> import capax
        >>> task = capax.draw_task(capax.TaskSpec(function="and2", T=11, m=40, seed=7))
        >>> task.X_train.shape, task.X_validation.shape, len(task.support)
        ((40, 11), (10000, 11), 2)
    """
    training = draw_training(spec)
    X = validation_inputs(spec.T, spec.probability, spec.validation_size, spec.alphabet)
    y = labels(spec.rule.on(training.support, spec.T), X)
    return Task(training.support, training.X, training.y, X, y, training.rejections)


def draw_support(spec: TaskSpec) -> tuple[int, ...]:
    """The hidden positions I of `spec` (in the order of f's variables, if the order matters)."""
    f = spec.rule
    if isinstance(spec.support, tuple):
        return spec.support
    if spec.support == "formula":
        return f.support
    key = key_words(_data_fields(spec), "support")
    if spec.support == "contiguous":
        (first,) = random_support(spec.T - f.s + 1, 1, key=key)
        order = random_support(f.s, f.s, key=key_words(_data_fields(spec), "order"), ordered=True)
        return tuple(first + i for i in (range(f.s) if f.is_symmetric else order))
    return random_support(spec.T, f.s, key=key, ordered=not f.is_symmetric)


def draw_training(spec: TaskSpec) -> Training:
    """The first training set of `spec` that leaves one placement of f possible.

    Ambiguity is judged on the labels before noise. Raises `InfeasibleError` when `max_tries` sets
    in a row were ambiguous, or when the version space is too large to search.
    """
    check_memory(2 * spec.m * spec.T, f"T: {spec.m} inputs of length {spec.T}")
    f = spec.target
    key = key_words(_data_fields(spec), "train")
    for tries in _candidates(spec, f, key):
        X = input_rows(spec.m, spec.T, spec.probability, spec.alphabet, key=key, stream=tries)
        y = labels(f, X)
        if not spec.reject_ambiguous or _is_unambiguous(f, X, y):
            return Training(f.support, X, _with_noise(spec, y), tries)
    raise InfeasibleError(
        f"m: {spec.max_tries} training sets of m = {spec.m} examples all left several placements "
        f"of {spec.function} possible (T = {spec.T}, p = {spec.probability:.4g}); "
        f"use a larger m, or set reject_ambiguous to false"
    )


def _candidates(spec: TaskSpec, f: SparseFunction, key: Key) -> Iterable[int]:
    """The sets worth drawing whole, in order."""
    if not spec.reject_ambiguous:
        return range(spec.max_tries)
    return without_seen_rival(f, spec.T, spec.m, spec.probability, spec.max_tries, key=key)


def _is_unambiguous(f: SparseFunction, X: np.ndarray, y: np.ndarray) -> bool:
    """Checks the nearest rivals first: they reveal nearly every ambiguous set."""
    return not has_single_swap(f, X) and is_unique(f, X, y)


def validation_inputs(T: int, p: float, n: int, alphabet: int = 2) -> UInt8[np.ndarray, "n T"]:
    """The pool of n validation inputs shared by every task with this T, p and alphabet."""
    fields = {"T": T, "p": p, "n": n} | ({} if alphabet == 2 else {"alphabet": alphabet})
    return input_rows(n, T, p, alphabet, key=key_words(fields, "validation"))


def labels(f: SparseFunction, X: UInt8[np.ndarray, "n T"]) -> UInt8[np.ndarray, " n"]:
    """y = f(x) for each row of X."""
    return f(X).astype(np.uint8)


def _with_noise(spec: TaskSpec, y: np.ndarray) -> np.ndarray:
    if spec.noise == 0.0:
        return y
    key = key_words(_data_fields(spec), "noise")
    return y ^ bernoulli_rows(spec.m, 1, spec.noise, key=key)[:, 0]


def _data_fields(spec: TaskSpec) -> dict[str, object]:
    return spec.model_dump(mode="json", include=set(_DATA_FIELDS))


@functools.lru_cache(maxsize=1024)
def parsed(text: str, alphabet: int = 2) -> SparseFunction:
    """The function of a formula; parsed once."""
    return parse(text, alphabet=alphabet)


@functools.lru_cache(maxsize=1024)
def _balanced(text: str) -> float:
    try:
        return balancing_probability(parsed(text))
    except InputError:
        raise InputError(f"p: no p in (0, 1) balances {text}; give p as a number") from None
