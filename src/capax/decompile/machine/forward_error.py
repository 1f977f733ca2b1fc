"""How far the forward pass of a Transformer in floating point is from real arithmetic, at most.

The machine: unit roundoff u, no overflow. A sum of n terms, in any order, fused or not, is off by
gamma_n = n u/(1 - n u) times the sum of the absolute values. exp and erf are off by `library`,
relative to 1 for erf; so is the inverse root. What underflows is off by `tiny`. The relative error
of LayerNorm's variance is at most gamma_{2d+16} (1 + kappa), kappa = |mean|/sigma. Two passes and
Welford's updates are assumed to keep this; for the updates it is not derived here, a test attacks
it. Weights are exact: they are stored numbers.

Every quantity q has a size, |q| <= size, and an error, |computed - real| <= error, over the inputs
in question. With sigma(x) = (|Cx|^2/d + eps)^(1/2), C = I - 11^T/d and n(x) = Cx/sigma(x), |n| <=
sqrt d, the steps are:

* *LayerNorm of a moved x.* The derivative of n is (I - n n^T/d) C/sigma, so for |delta| <= E

      |n(x + delta) - n(x)|_i <= (E_i + mean E)/s + |n_i| |E|_2/(s sqrt d),

  where sigma >= s on the way from x to x + delta: sigma moves by at most |E|_2/sqrt d.
* *Its own rounding.* The mean is off by mu, |mu|/sigma <= a = gamma_{d+2} (1 + kappa), because
  mean |x| <= |mean| + sigma. The deviations c - mu 1 have the mean square |c|^2/d + mu^2: the
  factor 1/sigma is off by rho = a^2 + gamma_{2d+16} (1 + kappa) + 2 library in relative terms,
  while rho <= 1/20. Together |n_i| (rho + 8u) + (a + 8 u kappa) 1.1.
* *The product behind it*, y W + b with y = gain n + bias: sum_i |G_ij| |n_i| <= sqrt d |G_j|_2 by
  Cauchy and Schwarz, G = gain W.
* *Softmax.* Scores off by eta move each share by a factor within e^{+-2 eta}, and the shares keep
  their sum: the mean of v moves by at most (e^{2 eta} - 1) max |v - v'|, v' any number. The sums of
  T + 1 weights and products multiply each term by 1 + theta, |theta| <= gamma_{2T+12}.
* *gelu* has slopes between -0.13 and 1.13; relu is exact.

`deviations` are lower ends of sigma: proved ones, or the smallest that were met when *all* the
inputs were run. These are numbers of the machine: 0.9 of them, less |E|_2/sqrt d, is a lower end
of the real sigma, and nothing is circular, because E in front of a norm depends on earlier norms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capax.attention.block import LAYER_NORM_EPSILON, Block, LayerNorm
from capax.attention.parts.normalizers import Softmax
from capax.attention.parts.scores import attention_scale
from capax.attention.transformer import Transformer
from capax.errors import require
from capax.rounding import LIBRARY, UNIT, UNIT32, UP, gamma

GELU_SLOPE = 1.13
SMALL = 0.05
"""Relative errors of a norm above this are not bounded."""
LARGEST = 1e30
"""Sizes above this may overflow."""


@dataclass(frozen=True)
class FloatUnit:
    """Unit roundoff, error of library functions, and what underflow may lose in a whole pass."""

    unit: float
    library: float
    tiny: float

    def sum(self, n: int) -> float:
        """gamma_n."""
        return gamma(n, self.unit)


FLOAT32 = FloatUnit(UNIT32, 2.0**-20, 2.0**-90)
FLOAT64 = FloatUnit(UNIT, LIBRARY, 2.0**-900)


@dataclass(frozen=True)
class SizeAndError:
    """|q| <= size and |computed q - q| <= error, of arrays."""

    size: np.ndarray
    error: np.ndarray

    @property
    def reach(self) -> np.ndarray:
        """At least |computed q|."""
        return self.size + self.error


@dataclass(frozen=True)
class Stream:
    """The residual stream of N tokens [N, d], and the size of its mean [N]."""

    x: SizeAndError
    mean: np.ndarray

    def plus(self, u: SizeAndError, W: np.ndarray, b: np.ndarray, machine: FloatUnit) -> "Stream":
        """x + u W + b."""
        size = u.size @ np.abs(W) + np.abs(b)
        summed = u.reach @ np.abs(W) + np.abs(b) + self.x.reach
        lost = machine.sum(len(W) + 4) * summed + machine.tiny
        error = (self.x.error + u.error @ np.abs(W) + lost) * UP
        mean = self.mean + u.size @ _mean_size(W) + _mean_size(b)
        return Stream(SizeAndError(self.x.size + size, error), mean * UP)


@dataclass(frozen=True)
class Normed:
    """n(x) of N tokens: |n computed - n|_i <= plain_i + along |n_i|, |n|_2 <= sqrt d."""

    ln: LayerNorm
    plain: np.ndarray  # [N, d]
    along: np.ndarray  # [N]
    n: np.ndarray | None = None
    """n itself where it is known [N, d], in float64, which is off by no more than the machine."""

    def product(self, W: np.ndarray, b: np.ndarray, machine: FloatUnit) -> SizeAndError:
        """y W + b for y = gain n + bias; W [d, g], b [g]."""
        gain, bias = np.abs(_wide(self.ln.gain)), np.abs(_wide(self.ln.bias))
        d, G = len(gain), gain[:, None] * np.abs(W)
        length = math.sqrt(d) * np.sqrt((G * G).sum(0))  # sum_i |G_ij| |n_i| at most
        spread = np.broadcast_to(length, (len(self.plain), len(length)))
        if self.n is not None:
            near = np.abs(self.n) * (1 + self.along[:, None]) + self.plain
            spread = np.minimum(spread, near @ G)
        moved = self.plain @ G + self.along[:, None] * spread
        terms = spread + bias @ np.abs(W) + np.abs(b)
        size = terms
        if self.n is not None:
            value = (self.n * _wide(self.ln.gain) + _wide(self.ln.bias)) @ W + b
            size = np.minimum(terms, np.abs(value) + gamma(d + 6) * terms + moved)
        error = moved + machine.sum(d + 6) * (terms + moved) + machine.tiny
        return SizeAndError(size * UP, error * UP)


def forward_error(
    model: Transformer, deviations: Sequence[float], machine: FloatUnit = FLOAT32
) -> float:
    """At least |logit of the machine - real logit| on all inputs with these deviations.

    deviations: lower ends of sigma at every LayerNorm behind the first one, in the order in which
    they are met (two numbers for each layer, the last one is that of the read-out). Infinite where
    nothing is promised.
    """
    why = unfit(model)
    require(why is None, "model", "a softmax Transformer with LayerNorm and gelu or relu", why)
    wanted = 2 * len(model.blocks)
    require(len(deviations) == wanted, "deviations", f"{wanted} numbers", len(deviations))
    left = iter(deviations)
    with np.errstate(all="ignore"):
        stream, normed = token_stream(model, machine)
        for layer, block in enumerate(model.blocks):
            if layer:
                normed = _normed(block.ln1, stream, next(left), machine)
            read = stream if layer + 1 < len(model.blocks) else _last(stream)
            heads = _heads(block, normed, len(read.mean), model.spec.T + 1, machine)
            W_O, b_O = _wide(block.W_O).reshape(-1, stream.x.size.shape[1]), _wide(block.b_O)
            stream = read.plus(heads, W_O, b_O, machine)
            normed = _normed(block.ln2, stream, next(left), machine)
            hidden = _hidden(block, normed, machine)
            stream = stream.plus(hidden, _wide(block.W_out), _wide(block.b_out), machine)
        final = _normed(model.ln_final, stream, next(left), machine)
        logit = final.product(_wide(model.w)[:, None], _wide(model.b)[None], machine)
    largest = max(float(stream.x.reach.max()), float(logit.reach.max()))
    error = float(logit.error.max())
    return error if math.isfinite(error) and largest < LARGEST else math.inf


def unfit(model: Transformer) -> str | None:
    """Why there is no bound, or None."""
    norm, spec = model.blocks[0].norm, model.spec
    if not isinstance(norm, Softmax) or norm.temperature != 1.0:
        return f"the normalizer {spec.normalizer}"
    if not spec.layer_norm:
        return "no LayerNorm"
    return None if spec.activation in ("gelu", "relu") else spec.activation


def _mean_size(x: np.ndarray) -> np.ndarray:
    """At least |mean| along the last axis."""
    return np.asarray(np.abs(x.mean(-1)) + gamma(x.shape[-1] + 2) * np.abs(x).mean(-1))


def _wide(array: object) -> np.ndarray:
    return np.asarray(array, np.float64)


def token_stream(model: Transformer, machine: FloatUnit) -> tuple[Stream, Normed]:
    """All A T + 1 tokens, [CLS] last, whose numbers are known, and their first norm."""
    every = _wide(model.position)[:, None] + _wide(model.embed)[None]
    x = np.concatenate([every.reshape(-1, every.shape[-1]), _wide(model.cls)[None]])
    sums = np.abs(x) * (machine.unit + UNIT) + machine.tiny
    stream = Stream(SizeAndError(np.abs(x), sums), _mean_size(x) * UP)
    c = x - x.mean(1, keepdims=True)
    sigma = np.sqrt((c * c).mean(1) + LAYER_NORM_EPSILON)
    found = _normed(model.blocks[0].ln1, stream, sigma, machine)
    return stream, Normed(found.ln, found.plain, found.along, c / sigma[:, None])


def _last(stream: Stream) -> Stream:
    """[CLS] alone."""
    return Stream(SizeAndError(stream.x.size[-1:], stream.x.error[-1:]), stream.mean[-1:])


def _normed(
    ln: LayerNorm | None, stream: Stream, deviation: float | np.ndarray, machine: FloatUnit
) -> Normed:
    """The norm of a stream whose sigma, as run, is at least `deviation`."""
    assert ln is not None
    E, d = stream.x.error, stream.x.size.shape[1]
    shift = np.sqrt((E * E).sum(1) / d) * UP
    s = 0.9 * np.maximum(deviation, math.sqrt(LAYER_NORM_EPSILON)) - 2 * shift
    kappa = np.where(s > 0, (stream.mean + E.mean(1)) / s, np.inf)
    level, along = norm_rounding(d, kappa, machine)
    plain = (E + E.mean(1, keepdims=True)) / s[:, None] + level[:, None]
    return Normed(ln, plain * UP, (shift / s + along) * UP)


def norm_rounding(d: int, kappa: np.ndarray, machine: FloatUnit) -> tuple[np.ndarray, np.ndarray]:
    """(level, along): |n computed - n(x)|_i <= level + along |n_i|, from an exact x."""
    a = machine.sum(d + 2) * (1 + kappa)
    rho = a * a + machine.sum(2 * d + 16) * (1 + kappa) + 2 * machine.library
    lost = np.where(rho <= SMALL, 1.0, np.inf)
    return 1.1 * (a + 8 * machine.unit * kappa) * lost, (rho + 8 * machine.unit) * lost


@dataclass(frozen=True)
class HeadRounding:
    """How far the scores of the last Q tokens as queries are off [Q, H, N]; values [N, H k]."""

    scores: np.ndarray
    values: SizeAndError


def head_rounding(block: Block, normed: Normed, queries: int, machine: FloatUnit) -> HeadRounding:
    """Scores and values that the heads of a block compute from n(x).

    The rounding of exp and of the subtraction of the largest score is in the scores.
    """
    H, d, k = block.W_Q.shape
    q, keys, values = (
        normed.product(_wide(W).transpose(1, 0, 2).reshape(d, H * k), _wide(b).reshape(-1), machine)
        for W, b in ((block.W_Q, block.b_Q), (block.W_K, block.b_K), (block.W_V, block.b_V))
    )
    q = SizeAndError(q.size[-queries:], q.error[-queries:])
    scale = abs(attention_scale(k, block.scale))

    def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """a . b by head: [queries, H, N]."""
        a, b = (x.reshape(len(x), H, k) for x in (a, b))
        return scale * np.einsum("qhk,thk->qht", a, b)

    moved = products(q.size, keys.error) + products(q.error, keys.reach)
    size = products(q.reach, keys.reach)
    own = machine.sum(k + 4) * size + 4 * machine.unit * size.max(2, keepdims=True)
    return HeadRounding((moved + own + 1.1 * machine.library) * UP, values)


def _heads(
    block: Block, normed: Normed, queries: int, length: int, machine: FloatUnit
) -> SizeAndError:
    """The outputs of the last `queries` tokens [queries, H k], each a mean of `length` values."""
    found, k = head_rounding(block, normed, queries, machine), block.W_Q.shape[-1]
    shares = np.expm1(2 * found.scores.max(2)).repeat(k, axis=1)
    v, off = found.values.size.max(0), found.values.error.max(0)
    error = (shares + machine.sum(2 * length + 12)) * (v + off) + off + machine.tiny
    return SizeAndError(np.broadcast_to(v, error.shape), error * UP)


def _hidden(block: Block, normed: Normed, machine: FloatUnit) -> SizeAndError:
    """sigma(y W_in + b_in)."""
    h = normed.product(_wide(block.W_in), _wide(block.b_in), machine)
    slope = 1.0 if block.activation == "relu" else GELU_SLOPE
    own = activation_rounding(block.activation, machine) * h.reach
    return SizeAndError(h.size, (slope * h.error + own) * UP + machine.tiny)


def activation_rounding(name: str, machine: FloatUnit) -> float:
    """How far sigma(h) is off, relative to |h|."""
    return 0.0 if name == "relu" else 2 * machine.library + 8 * machine.unit
