"""The paper's selection heads, Lemmas B.2 to B.4: matrices, norms, and the outputs they
approximate.

Let u be the key direction and R the inverse temperature, W_Q = R v_CLS e_1^T, W_K = u e_1^T.

* B.2, B.3 one head: scores R on the support I and 0 elsewhere, values chi_i = +-1 of the bits:
  the mean g = (1/s) sum_{i in I} chi_i, which rises by 2/s with every bit that is on.
* B.2, B.3 with s heads: head h selects one position: the vector (chi_i), 2-injective.
* B.4, bag of vectors, one head: [CLS] has score R too; values b_i - 1 after the mixture:
  g = (r - s)/(r + 1), or the vector ((b_i - 1)/(r + 1))_i, both with steps of at least 1/s.

With orthonormal vectors u = sum_{i in I} v_i, as printed. With vectors of coherence Delta > 0 the
printed u gives scores inside I that differ by up to 2 (s-1) Delta R, and the mean is lost. The
repair: u = sum_j c_j v_j with G c = 1 (G the Gram matrix of v_I), so that u . v_i = 1 on I and
|u . v_t| <= eta = s Delta/(1 - (s-1) Delta) elsewhere. The gap is R (1 - eta), hence

    R = log(8T/gamma)/(1 - eta),   1 - eta = (1 - (2s-1) Delta)/(1 - (s-1) Delta),
    ||u||^2 = 1^T G^-1 1 <= s/(1 - (s-1) Delta).

B.4 also reads its values in the dual basis, so no error of size s Delta is left.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from capax.attention.numpy_block import BlockMatrices, softmax
from capax.compiler.parts.literals import pattern_bits
from capax.compiler.parts.selection import EncodingName
from capax.errors import require


@dataclass(frozen=True)
class PaperHeads:
    """Heads of one lemma on T tokens.

    `lemma`: "B.2", "B.3" or "B.4"; `vector`: the s-dimensional output instead of the mean; `gamma`:
    outputs are promised to be within gamma/4 of `wanted` [2^s, p]; `positions` [T, d]: the vectors
    P_t or v_t, in a width whose last three coordinates are E_0, E_1, v_CLS (bag: the last is
    v_CLS); `limits`: the lemma's limits for the Frobenius norms.
    """

    lemma: str
    encoding: EncodingName
    support: tuple[int, ...]
    vector: bool
    gamma: float
    Delta: float
    R: float
    positions: Float[np.ndarray, "T d"]
    heads: tuple[BlockMatrices, ...]
    wanted: Float[np.ndarray, "patterns p"]
    limits: dict[str, float]
    printed: bool = False

    @property
    def T(self) -> int:
        """Context length, without [CLS]."""
        return len(self.positions)

    @property
    def s(self) -> int:
        """Number of selected positions."""
        return len(self.support)

    def norms(self) -> dict[str, float]:
        """The largest Frobenius norm of each matrix over the heads; P: ||P^T||_{2,1}."""
        names = ("W_Q", "W_K", "W_V", "W_C")
        found = {n: max(float(np.linalg.norm(getattr(h, n))) for h in self.heads) for n in names}
        if self.lemma == "B.3":
            found["P"] = float(np.linalg.norm(self.positions, axis=1).sum())
        return found

    def within_limits(self) -> bool:
        """Is every norm within the limits of the lemma?"""
        norms = self.norms()
        return all(norms[name] <= limit * (1 + 1e-12) for name, limit in self.limits.items())

    def outputs(self, bits: Shaped[np.ndarray, "n T"]) -> Float[np.ndarray, "n p"]:
        """The sum of the heads on rows of bits, in float64 and without the T x d tokens."""
        b = np.asarray(bits, dtype=np.float64)
        return np.sum([self._head(W, b) for W in self.heads], axis=0)

    def tokens(self, row: Shaped[np.ndarray, " T"]) -> Float[np.ndarray, "T_1 d"]:
        """The T tokens of one input and [CLS]."""
        d = self.positions.shape[1]
        unit = np.eye(d)
        if self.encoding == "bag":
            body = np.asarray(row)[:, None] * self.positions
        else:
            body = self.positions + unit[d - 3 + np.asarray(row).astype(int)]
        return np.concatenate([body, unit[-1:]])

    def _head(self, W: BlockMatrices, b: Float[np.ndarray, "n T"]) -> Float[np.ndarray, "n p"]:
        """Scores and values of a token are sums of those of its position and of its symbol."""
        key, value = W.W_K @ W.W_Q[-1], W.W_V @ W.W_C
        at, read = self.positions @ key, self.positions @ value
        if self.encoding == "bag":
            scores, values = b * at, b[:, :, None] * read
        else:
            scores = at + np.where(b > 0, key[-2], key[-3])
            values = read + np.where(b[:, :, None] > 0, value[-2], value[-3])
        scores = np.concatenate([scores, np.full((len(b), 1), key[-1])], axis=1)
        cls = np.broadcast_to(value[-1], (len(b), 1, value.shape[1]))
        weights = softmax(scores)
        return np.einsum("nt,ntp->np", weights, np.concatenate([values, cls], axis=1))


def paper_heads(
    T: int,
    support: tuple[int, ...],
    encoding: EncodingName = "deterministic",
    *,
    vector: bool = False,
    gamma: float | None = None,
    codes: Float[np.ndarray, "T k"] | None = None,
    printed: bool = False,
) -> PaperHeads:
    """The heads of B.2 (deterministic, incoherent), B.3 (trainable) or B.4 (bag).

    `codes`: unit vectors for the positions (None: orthonormal ones). `gamma`: at most 1, and at
    most the step of the wanted function, which is the default. `printed`: the matrices exactly as
    the paper prints them, errors included.
    """
    s = len(support)
    require(1 <= s <= T, "support", f"1 to T = {T} positions", support)
    step = 1 / s if encoding == "bag" else (1.0 if vector else 2 / s)
    gamma = min(step, 0.5 if encoding == "bag" else 1.0) if gamma is None else gamma
    require(0 < gamma <= 1, "gamma", "a number in (0, 1]", gamma)
    vectors = np.eye(T) if codes is None else np.asarray(codes, np.float64)
    if encoding == "trainable":
        return _trainable(T, support, vector, gamma, printed)
    if encoding == "bag":
        return _bag(vectors, support, vector, gamma, printed)
    return _fixed(vectors, support, encoding, vector, gamma, printed)


def coherence_of(vectors: Float[np.ndarray, "T k"], support: tuple[int, ...]) -> float:
    """Delta: the largest |v_i . v_t| of a selected position and another one."""
    products = np.abs(vectors[list(support)] @ vectors.T)
    products[np.arange(len(support)), list(support)] = 0.0
    return float(products.max())


def _gap_share(s: int, Delta: float) -> float:
    """1 - eta = (1 - (2s-1) Delta)/(1 - (s-1) Delta); raises InputError where it is not > 0."""
    require((2 * s - 1) * Delta < 1, "Delta", f"below 1/(2s-1) = {1 / (2 * s - 1):.4g}", Delta)
    return (1 - (2 * s - 1) * Delta) / (1 - (s - 1) * Delta)


def _dual(vectors: Float[np.ndarray, "T k"], support: tuple[int, ...]) -> Float[np.ndarray, "s k"]:
    """Rows d_i with d_i . v_j = 1[i = j] on the support."""
    chosen = vectors[list(support)]
    return np.linalg.solve(chosen @ chosen.T, chosen)


def _fixed(
    vectors: np.ndarray,
    support: tuple[int, ...],
    encoding: EncodingName,
    vector: bool,
    gamma: float,
    printed: bool,
) -> PaperHeads:
    """Lemma B.2."""
    (T, k), s = vectors.shape, len(support)
    Delta = coherence_of(vectors, support)
    positions = np.concatenate([vectors, np.zeros((T, 3))], axis=1)
    chosen = positions[list(support)]
    if printed:
        require(s * Delta < 1, "Delta", f"below 1/s = {1 / s:.4g}", Delta)
        R, keys = math.log(8 * T / gamma) / (1 - s * Delta), chosen
    elif vector:
        keys = chosen  # one position each: the gap is R (1 - Delta)
        R = math.log(8 * T / gamma) / (1 - s * Delta)
        require(s * Delta < 1, "Delta", f"below 1/s = {1 / s:.4g}", Delta)
    else:
        R = math.log(8 * T / gamma) / _gap_share(s, Delta)
        keys = np.concatenate([_dual(vectors, support), np.zeros((s, 3))], axis=1)
    longest = 1.0 if vector else math.sqrt(s / (1 - (s - 1) * Delta))
    limits = {"W_Q": R, "W_K": longest if Delta or vector else float(s), "W_V": 2.0, "W_C": 1.0}
    heads = _bit_heads(keys if vector else keys.sum(0, keepdims=True), R, k, printed, vector)
    return PaperHeads(
        "B.2", encoding, support, vector, gamma, Delta, R, positions, heads,
        _signs(s, vector, printed), limits, printed,
    )  # fmt: skip


def _trainable(
    T: int, support: tuple[int, ...], vector: bool, gamma: float, printed: bool
) -> PaperHeads:
    """Lemma B.3: selected positions share one vector, or have one each; all others are 0."""
    s = len(support)
    slots = np.eye(s) if vector else np.ones((s, 1))
    k = slots.shape[1]
    positions = np.zeros((T, k + 3))
    positions[list(support), :k] = slots
    R = math.log(8 * T / gamma)
    keys = np.eye(k, k + 3)
    limits = {"W_Q": R, "W_K": 1.0, "W_V": 2.0, "W_C": 1.0, "P": float(s)}
    heads = _bit_heads(keys, R, k, False, vector)
    return PaperHeads(
        "B.3", "trainable", support, vector, gamma, 0.0, R, positions, heads,
        _signs(s, vector, False), limits, printed,
    )  # fmt: skip


def _bit_heads(
    keys: Float[np.ndarray, "h d"], R: float, k: int, printed: bool, vector: bool
) -> tuple[BlockMatrices, ...]:
    """Heads that read the bit: W_V = E_1 - E_0. Printed: E_0 - E_1, and e_2 against e_1."""
    unit = np.eye(k + 3)
    sign = unit[k] - unit[k + 1] if printed else unit[k + 1] - unit[k]
    heads = []
    for h, key in enumerate(keys):
        out = np.eye(len(keys))[h : h + 1]
        W_V, W_C, first = sign[:, None], out, np.ones((1, 1))
        if printed and vector:  # W_V = (...) e_2^T meets W_C = e_1 e_h^T: the product is 0
            W_V, W_C = np.pad(W_V, ((0, 0), (1, 0))), np.pad(out, ((0, 1), (0, 0)))
            first = np.eye(1, 2)
        heads.append(BlockMatrices(R * unit[-1:].T @ first, key[:, None] @ first, W_V, W_C))
    return tuple(heads)


def _bag(
    vectors: np.ndarray, support: tuple[int, ...], vector: bool, gamma: float, printed: bool
) -> PaperHeads:
    """Lemma B.4."""
    (T, k), s = vectors.shape, len(support)
    Delta = coherence_of(vectors, support)
    positions = np.concatenate([vectors, np.zeros((T, 1))], axis=1)
    cls = np.eye(k + 1)[-1]
    if printed:
        require(s * Delta < gamma < 1, "gamma", f"between s Delta = {s * Delta:.4g} and 1", gamma)
        R = math.log(8 * T * s * (1 + Delta) / (gamma - s * Delta)) / (1 - s * Delta)
        directions, stretch = positions[list(support)], 1.0
    else:
        R = math.log(8 * T * s * (1 + Delta) / gamma) / _gap_share(s, Delta)
        directions = np.concatenate([_dual(vectors, support), np.zeros((s, 1))], axis=1)
        stretch = 1 / math.sqrt(1 - (s - 1) * Delta)
    W_V = directions.T - cls[:, None]  # [k + 1, s]
    W_C = np.eye(s) if vector else np.ones((s, 1))
    first = np.eye(1, s)
    key = directions.sum(0) + cls
    head = BlockMatrices(R * cls[:, None] @ first, key[:, None] @ first, W_V, W_C)
    limits = {"W_Q": R, "W_K": (s + 1) * stretch, "W_V": 2 * s * stretch, "W_C": float(s)}
    bits = pattern_bits(s)
    ones = bits.sum(1, keepdims=True)
    wanted = (bits - 1) / (ones + 1) if vector else (ones - s) / (ones + 1)
    return PaperHeads(
        "B.4", "bag", support, vector, gamma, Delta, R, positions, (head,), wanted, limits, printed
    )


def _signs(s: int, vector: bool, printed: bool) -> Float[np.ndarray, "patterns p"]:
    """chi = +1 for a bit that is on (printed: off), or its mean over the support."""
    signs = (2 * pattern_bits(s) - 1) * (-1 if printed else 1)
    return signs if vector else signs.mean(1, keepdims=True)
