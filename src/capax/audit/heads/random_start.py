"""The same numbers at random initialisation, simulated for the shapes of this checkpoint.

Gains are 1, offsets and biases 0, matrices drawn as in the family's code. The median over a few
simulated heads is printed beside every measured number. For normal entries of size s the expected
value has a closed form, E ||W_Q W_K^T||_F^2 = s^4 d^2 k, and the tests compare it with the
simulation.
"""

import math
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from capax.audit.heads.head_sizes import HeadSizes, head_sizes
from capax.audit.layouts.attention_layer import Attention, DistanceVectors, Norm
from capax.audit.layouts.table import Recognised
from capax.identity import key_words

COMPARED = ("W_QK_F", "W_QK_2", "stable_rank", "W_VO_2", "W_VO_21", "score_radius")
SIMULATED_HEADS = 6


@dataclass(frozen=True)
class Start:
    """How weights are drawn: normal of one size, T5's own sizes, or PyTorch's uniform ones."""

    kind: str
    size: float
    text: str
    num_layers: int


def start_of(recognised: Recognised) -> Start:
    """From the configuration or --init-std; else the usual size of the family, marked as such."""
    kind, key, usual = recognised.layout.init
    settings = recognised.settings
    given = settings.options.init_std
    if given is not None:
        return Start("normal", given, f"normal, size {given:g} (--init-std)", 1)
    layers = recognised.facts.layers
    if kind == "torch":
        return Start(kind, 1.0, "uniform, as torch.nn.MultiheadAttention starts", layers)
    size = settings.number("initial size", key, default=math.nan)
    known = size > 0  # NaN is not
    where = f"{settings.origin}: {key}" if known else "usual for the family; the file does not say"
    size = size if known else usual
    name = "T5's own sizes, factor" if kind == "t5" else "normal, size"
    return Start(kind, size, f"{name} {size:g} ({where})", layers)


def random_sizes(
    template: Attention, start: Start, family: str, limit: int | None
) -> dict[str, float | None]:
    """Medians over simulated heads of the shape of `template`."""
    drawn = _drawn(template, start, family)
    heads = [head_sizes(drawn, h, limit) for h in range(len(drawn.W_Q))]
    return {name: _median([getattr(head, name) for head in heads]) for name in COMPARED}


def ratio(sizes: HeadSizes, random: dict[str, float | None], name: str) -> float | None:
    """Measured over simulated; None if one of them is missing or the simulated one is 0."""
    value, base = getattr(sizes, name), random[name]
    return value / base if value is not None and base else None


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _drawn(template: Attention, start: Start, family: str) -> Attention:
    (d, k), group = template.W_Q.shape[1:], template.group
    G = max(1, SIMULATED_HEADS // group)
    H, seed = G * group, key_words([family, start.kind, start.size, d, k, group], "random start")
    rng = np.random.default_rng(seed)
    sizes = _sizes(start, family, d, k, len(template.W_Q))

    def draw(shape: tuple[int, ...], size: float) -> np.ndarray:
        if start.kind == "torch":
            return rng.uniform(-size, size, shape)
        return rng.normal(0.0, size, shape)

    return replace(
        template,
        W_Q=draw((H, d, k), sizes[0]), W_K=draw((G, d, k), sizes[1]), W_V=draw((G, d, k), sizes[2]),
        W_O=draw((H, k, d), sizes[3]), b_Q=None, b_K=None, b_V=None, b_O=None,
        norm=_plain(template.norm), key_norm=_plain(template.key_norm),
        distance_vectors=_drawn_vectors(template.distance_vectors, start, rng),
        distance_bias=None if template.distance_bias is None
        else rng.normal(0.0, start.size / math.sqrt(d), (H, template.distance_bias.shape[1])),
        q_gain=None if template.q_gain is None else np.ones(k),
        k_gain=None if template.k_gain is None else np.ones(k),
    )  # fmt: skip


def _sizes(start: Start, family: str, d: int, k: int, H: int) -> tuple[float, float, float, float]:
    s = start.size
    if start.kind == "t5":
        return s / math.sqrt(d * k), s / math.sqrt(d), s / math.sqrt(d), s / math.sqrt(H * k)
    if start.kind == "torch":  # Xavier for the stacked [3d, d], 1/sqrt(d) for the output
        inside = math.sqrt(6 / (4 * d))
        return inside, inside, inside, 1 / math.sqrt(d)
    last = s / math.sqrt(2 * start.num_layers) if family == "GPT-2" else s
    return s, s, s, last


def _drawn_vectors(
    vectors: DistanceVectors | None, start: Start, rng: np.random.Generator
) -> DistanceVectors | None:
    if vectors is None:
        return None
    return replace(vectors, vectors=rng.normal(0.0, start.size, vectors.vectors.shape))


def _plain(norm: Norm | None) -> Norm | None:
    return None if norm is None else Norm(norm.kind, np.ones(len(norm.gain)))
