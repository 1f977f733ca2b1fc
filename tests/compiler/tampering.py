# ruff: noqa: ARG001
"""Ways to make a weights file lie. Each takes arrays and claims, changes them, and forges the rest.

The forger knows the verifier: after tampering, `repaired` copies every number that the verifier
recomputes into the certificate, and saves with a correct fingerprint. What stays false is what
the file is for: function, table, error, margin.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from capax.attention import ClsMLP, TrainablePositions, checkpoint
from capax.compiler.weights_file import KIND

Arrays = dict[str, np.ndarray]
MEANT = ("function", "table", "support", "worst_case_error", "eps", "margin", "wrong_decisions")
"""Claims the forger wants to be believed, so never repaired."""


def arrays_of(model) -> Arrays:
    """Every array of a network by name, as a copy."""
    names = ["W_Q", "W_K", "W_V"]
    names += ["W_1", "b_1", "w_2", "b_2"] if isinstance(model, ClsMLP) else ["W_C", "w"]
    found = {name: np.array(getattr(model, name), np.float64) for name in names}
    if isinstance(model.encoding, TrainablePositions):
        found |= {n: np.array(getattr(model.encoding, n), np.float64) for n in ("E", "P", "v_CLS")}
    return found


def with_arrays(model, arrays: Arrays):
    """The network with these arrays."""
    with jax.enable_x64(True):
        for name, value in arrays.items():
            where = (
                (lambda m, n=name: getattr(m.encoding, n))
                if name in ("E", "P", "v_CLS")
                else (lambda m, n=name: getattr(m, n))
            )
            model = eqx.tree_at(where, model, jax.device_put(value))
    return model


def write(path: Path, model, claims: dict[str, Any]) -> Path:
    """A file with a correct fingerprint."""
    return checkpoint.save(path, model, {"kind": KIND, "certificate": claims})


def repaired(claims: dict[str, Any], failed) -> dict[str, Any]:
    """The certificate with every failed number replaced by the recomputed one."""
    forged = copy.deepcopy(claims)
    for claim in failed:
        *path, last = claim.name.split(".")
        if claim.name in MEANT or (not path and last in ("norms", "paper_bounds", "capacity")):
            continue
        place = forged
        for step in path:
            place = place.setdefault(step, {})
        found = claim.recomputed
        if claim.relation in ("~", "<=", ">=") and isinstance(found, list):
            found = (found[0] + found[1]) / 2 if claim.relation == "~" else found[1]
        elif claim.name == "family" and found:
            found = found[0]
        if isinstance(place, dict):
            place[last] = found
    return forged


def _unit(arrays: Arrays, column, bias: float, weight: float) -> None:
    arrays["W_1"] = np.concatenate([arrays["W_1"], np.asarray(column)[:, None]], axis=1)
    arrays["b_1"] = np.append(arrays["b_1"], bias)
    arrays["w_2"] = np.append(arrays["w_2"], weight)


def gain_splitting(a: Arrays, claims, g: np.random.Generator) -> None:
    """One unit becomes two of different gain; their sum is the same up to a small error."""
    if "W_1" not in a:
        factor = 2.0 ** g.integers(-40, 40) * (1 + 10.0 ** g.uniform(-14, -1))
        a["W_V"] *= factor
        a["W_C"] /= factor * (1 + g.choice([0.0, 10.0 ** g.uniform(-12, 0.3)]))
        return
    i, gain = g.integers(a["b_1"].size), 10.0 ** g.uniform(0, 13)
    share = g.uniform(0.1, 0.9)
    w = a["w_2"][i]
    a["w_2"][i] = share * w
    _unit(a, gain * a["W_1"][:, i], gain * a["b_1"][i], (1 - share) * w / gain)
    if g.random() < 0.5:
        a["W_1"][0, -1] *= 1 + 10.0 ** g.uniform(-15, -6)


def near_duplicates(a: Arrays, claims, g: np.random.Generator) -> None:
    """Two units whose directions differ in the last digits, with opposite outputs and huge gain."""
    if "W_1" not in a:
        a["W_V"] = np.concatenate([a["W_V"], a["W_V"] * (1 + 10.0 ** g.uniform(-16, -9))], axis=1)
        gain = 10.0 ** g.uniform(0, 14)
        a["W_C"] = np.concatenate([a["W_C"] * (1 + gain), -a["W_C"] * gain])
        return
    direction = g.normal(size=a["W_1"].shape[0])
    gain, apart = 10.0 ** g.uniform(4, 14), 10.0 ** g.uniform(-16, -10)
    other = direction + apart * g.normal(size=direction.size)
    for column, sign in ((direction, 1.0), (other, -1.0)):
        _unit(a, gain * column, 0.0, sign * g.choice([1.0, 0.5]))
    a["w_2"][-1] = -a["w_2"][-2]
    _unit(a, 1e-3 * g.normal(size=direction.size), 0.0, 1e-3)  # a decoy


def sign_flips(a: Arrays, claims, g: np.random.Generator) -> None:
    """Every norm stays the same."""
    for _ in range(g.integers(1, 3)):
        flat = a[g.choice(list(a))].reshape(-1)
        used = np.flatnonzero(flat)
        if used.size:
            flat[g.choice(used)] *= -1


def permutations(a: Arrays, claims, g: np.random.Generator) -> None:
    """Rows of a head matrix, or hidden units: of all arrays alike (harmless) or of one of them."""
    if "b_1" in a and a["b_1"].size > 1 and g.random() < 0.6:
        order = g.permutation(a["b_1"].size)
        chosen = ("W_1", "b_1", "w_2") if g.random() < 0.4 else (g.choice(["b_1", "w_2"]),)
        for name in chosen:
            a[name] = a[name][..., order]
        return
    name = g.choice(["W_K", "W_V", "P"] if "P" in a else ["W_K", "W_V"])
    i, j = g.choice(len(a[name]), 2, replace=False)
    a[name][[i, j]] = a[name][[j, i]]


def decoys(a: Arrays, claims, g: np.random.Generator) -> None:
    """Small things in places that should be empty."""
    size = 10.0 ** g.uniform(-13, 1)
    if "b_1" in a and g.random() < 0.5:
        _unit(a, size * g.normal(size=a["W_1"].shape[0]), size * g.normal(), g.normal())
        return
    flat = a[g.choice(["W_K", "W_V"])].reshape(-1)
    flat[g.integers(flat.size)] += size * g.normal()


def saturated_scores(a: Arrays, claims, g: np.random.Generator) -> None:
    """Scores of tens to thousands, where e^score has lost all but the largest."""
    factor = g.choice([1.5, 4.0, 10.0, 40.0, 200.0, 1e4])
    a["W_K"] *= factor
    if g.random() < 0.5:
        a["W_K"] += 1e-3 * factor * g.normal(size=a["W_K"].shape)


def metadata_lies(a: Arrays, claims, g: np.random.Generator) -> None:
    """The weights are honest, one field is not."""
    lies: list[Callable[[], object]] = [
        lambda: claims.update(function="x1 ^ x4"),
        lambda: claims.update(table=hex(int(g.integers(1 << 8)))),
        lambda: claims.update(worst_case_error=float(claims["worst_case_error"]) * g.random()),
        lambda: claims.update(margin=float(claims["margin"]) * (1 + g.random())),
        lambda: claims.update(family=str(g.choice(["general", "symmetric", "mine"]))),
        lambda: claims.update(encoding="bag" if claims["encoding"] != "bag" else "trainable"),
        lambda: claims.update(target="anything"),
        lambda: claims["sample_size"].update(occam=1),
        lambda: claims["norms"]["W_K"].update(frobenius=float(g.random())),
        lambda: claims.update(eps=1e-12),
        lambda: claims.update(T=claims["T"] + 1),
        lambda: claims.update(support=[int(x) for x in g.permutation(claims["T"])[: claims["s"]]]),
        lambda: claims.update(wrong_decisions=3),
        lambda: claims["capacity"].update(occam={}),
        lambda: claims.update(statements=["Proposition 9"]),
        lambda: claims.pop(str(g.choice(sorted(claims)))),
    ]
    lies[g.integers(len(lies))]()


def triggers(a: Arrays, claims, g: np.random.Generator) -> None:
    """Ours: a back door. Irrelevant positions get scores and values, so that only some fillers
    (all on, say) carry enough weight to turn the output over."""
    free = [t for t in range(claims["T"]) if t not in claims["support"]]
    if not free:
        return
    strength = 10.0 ** g.uniform(-3, 1)
    name = "P" if "P" in a else None
    for t in g.choice(free, g.integers(1, len(free) + 1), replace=False):
        if name:
            a["P"][t] += strength * g.normal(size=a["P"].shape[1]) / len(free)
        elif t < len(a["W_V"]):
            a["W_V"][t] += strength * g.normal(size=a["W_V"].shape[1])
            a["W_K"][t] += g.choice([0.0, 2.0]) * strength


def rescaled_pairs(a: Arrays, claims, g: np.random.Generator) -> None:
    """Ours: W_Q up and W_K down by 2^k, to the edge of float64, where digits silently vanish."""
    k = int(g.choice([20, 200, 500, 900, 1000]))
    lost = int(g.choice([0, 0, 1, 45, 60]))  # how much further down than up
    up, down = g.permutation(["W_Q", "W_K"])
    a[up], a[down] = np.ldexp(a[up], k), np.ldexp(a[down], -k - lost)
    a[up] = np.ldexp(a[up], min(lost, 1015 - k))


def cancelling_biases(a: Arrays, claims, g: np.random.Generator) -> None:
    """Ours: always-active units with huge biases that nearly cancel, and a b_2 to hide the sum."""
    big = 10.0 ** g.uniform(2, 16)
    if "b_1" not in a:
        a["w"] = np.append(a["w"], big)
        a["W_C"] = np.concatenate([a["W_C"], g.choice([0.0, 1e-16, 1e-12]) * a["W_C"][:, :1]], 1)
        return
    zero = np.zeros(a["W_1"].shape[0])
    _unit(a, zero, big, 1.0)
    _unit(a, zero, big * (1 + 10.0 ** g.uniform(-16, -12)), -1.0)
    if g.random() < 0.5:
        a["b_2"] = np.asarray(a["b_2"] + (a["b_1"][-1] - a["b_1"][-2]) * g.choice([1.0, 0.9]))


WEIGHT_KINDS = (
    gain_splitting,
    near_duplicates,
    sign_flips,
    permutations,
    decoys,
    saturated_scores,
    triggers,
    rescaled_pairs,
    cancelling_biases,
)
