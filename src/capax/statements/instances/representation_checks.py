"""Sections 5, 6 and Appendix B on small instances: one function for each statement."""

import itertools
import math

import numpy as np

from capax.boolean import from_table
from capax.boolean.best_possible.limits import counting
from capax.compiler.extensions.averages import compile_average
from capax.compiler.paper.bump_network import (
    BumpNetwork,
    bump_network,
    injective_network,
    symmetric_network,
)
from capax.compiler.paper.paper_heads import PaperHeads, paper_heads
from capax.compiler.parts.literals import pattern_bits
from capax.compiler.parts.selection import EncodingName
from capax.statements.forms.inequalities import truncation_distance
from capax.statements.forms.symbol_network import SymbolNetwork
from capax.statements.forms.token_influence import influence_attained, influence_bound
from capax.statements.instances.representation_counterexamples import uneven_codes, worst_error
from capax.statements.instances.small_instance import SmallInstance, compared

KEY = 2022
T, SUPPORT = 7, (6, 0, 3)


def all_bits(length: int) -> np.ndarray:
    """Every input of this length, one row each."""
    return np.array(list(itertools.product((0, 1), repeat=length)))


def symmetric_part(heads: PaperHeads, values: np.ndarray) -> BumpNetwork:
    """Lemma B.5 applied to the mean of the heads: values[r] at r ones."""
    ones = pattern_bits(heads.s).sum(axis=1).astype(int)
    heights = np.array([heads.wanted[ones == r][0, 0] for r in range(heads.s + 1)])
    return symmetric_network(heights, values, heads.gamma)


def _lemma(encoding: EncodingName, codes: bool = False) -> SmallInstance:
    """Mean and vector form on all 2^7 inputs, then on T = 200 codes of coherence 0.05."""
    worst, limits = 0.0, True
    bits = all_bits(T)
    rows = sum(bits[:, t] << i for i, t in enumerate(SUPPORT))
    for vector in (False, True):
        heads = paper_heads(T, SUPPORT, encoding, vector=vector)
        error = np.abs(heads.outputs(bits) - heads.wanted[rows]).max()
        worst = max(worst, float(error) / (heads.gamma / 4))
        limits &= heads.within_limits()
        if codes:
            coded = paper_heads(
                200, (0, 1, 2), encoding, vector=vector, codes=uneven_codes(200, 3, 0.05)
            )
            worst = max(worst, worst_error(coded) / (coded.gamma / 4))
            limits &= coded.within_limits()
    found = compared(worst, 1.0, f"{encoding}, s = 3, all inputs: error/(gamma/4)")
    return SmallInstance(found.holds and limits, f"{found.text}, norms within limits: {limits}")


def lemma_b_2() -> SmallInstance:
    """Orthonormal positions, and codes of coherence 0.05 with the repaired keys."""
    return _lemma("deterministic", codes=True)


def lemma_b_3() -> SmallInstance:
    """Trained positions."""
    return _lemma("trainable")


def lemma_b_4() -> SmallInstance:
    """Bag of vectors, orthonormal and with coherence 0.05."""
    return _lemma("bag", codes=True)


def proposition_b_1() -> SmallInstance:
    """XOR (symmetric) and a random function (any) of 3 bits, by every encoding, on all inputs."""
    rng = np.random.default_rng(KEY)
    bits, worst = all_bits(T), 0.0
    rows = sum(bits[:, t] << i for i, t in enumerate(SUPPORT))
    ones = bits[:, list(SUPPORT)].sum(axis=1)
    for encoding in ("deterministic", "trainable", "bag"):
        mean = paper_heads(T, SUPPORT, encoding)
        xor = np.array([0.0, 1.0, 0.0, 1.0])
        out = symmetric_part(mean, xor)(mean.outputs(bits))
        worst = max(worst, float(np.abs(out - xor[ones]).max()))
        each = paper_heads(T, SUPPORT, encoding, vector=True)
        table = rng.normal(size=8)
        out = injective_network(each.wanted, table, each.gamma)(each.outputs(bits))
        worst = max(worst, float(np.abs(out - table[rows]).max()))
    return compared(worst, 1e-9, "XOR and a real-valued function, 3 encodings, 2^7 inputs: error")


def proposition_5_1() -> SmallInstance:
    """Our compiler on XOR and on another function of 3 bits: the certificate of all inputs."""
    from capax.compiler import compile as compile_function

    made = [compile_function(from_table(table, SUPPORT, T)) for table in (0b10010110, 0b11010010)]
    wrong = [c.certificate.wrong_decisions for c in made]
    error = max(c.certificate.worst_case_error for c in made)
    found = compared(error, 1e-9, "two functions of 3 bits: certified error on 2^7 inputs")
    return SmallInstance(found.holds and wrong == [0, 0], found.text)


def _equals_nearby(
    network: BumpNetwork, points: np.ndarray, values: np.ndarray, moves: np.ndarray,
    widths: tuple[int, int], text: str,
) -> SmallInstance:  # fmt: skip
    """Whether the network has each value at its point, however moved, and the stated widths."""
    error = max(np.abs(network(p + moves) - v).max() for p, v in zip(points, values, strict=True))
    found = compared(float(error), 1e-9, f"{text}: error")
    fits = network.widths == widths and network.within_limits()
    return SmallInstance(found.holds and fits, f"{found.text}, widths {network.widths}")


def lemma_b_5() -> SmallInstance:
    """s + 1 levels, every height moved by up to gamma/4: the value stays; norms and widths."""
    heights, values, gamma = np.linspace(-1, 1, 4), np.array([0.3, -1.0, 2.0, 0.5]), 2 / 3
    network = symmetric_network(heights, values, gamma)
    moves = np.linspace(-1, 1, 41)[:, None] * gamma / 4
    return _equals_nearby(network, heights, values, moves, (16, 8), "4 levels, 41 moves each")


def lemma_b_6() -> SmallInstance:
    """2^3 vertices of a cube, each moved by up to gamma/4 in every coordinate."""
    rng = np.random.default_rng(KEY)
    points, values = 2 * pattern_bits(3) - 1, rng.normal(size=8)
    network = injective_network(points, values, 1.0)
    moves = rng.uniform(-0.25, 0.25, (200, 3))
    moves[:8] = points / 4
    return _equals_nearby(network, points, values, moves, (96, 16), "8 points, 200 moves each")


def lemma_b_7() -> SmallInstance:
    """Random scores; tight for equal ones as R grows."""
    rng = np.random.default_rng(KEY)
    sides = []
    for n in range(60):
        s, rest = 1 + n % 4, n % 7
        z = np.concatenate([rng.uniform(0, 9, s), -rng.exponential(1.0, rest)])
        sides.append(truncation_distance(z, s))
    sides.append(truncation_distance(np.array([9.0, 9.0] + [0.0] * 5), 2))
    tight = sides[-1]
    text = f"61 score vectors; equal ones: {tight.left:.6g} <= {tight.right:.6g}"
    return SmallInstance(all(side.holds for side in sides), text)


def lemma_b_8() -> SmallInstance:
    """Five separated points of the plane, each moved by up to delta."""
    rng = np.random.default_rng(KEY)
    points = np.array([[0, 0], [1, 0], [0, 1], [-2, 0.5], [1, 3]], dtype=np.float64)
    values, delta = rng.normal(size=5), 0.25
    network = bump_network(points, values, delta)
    moves = rng.uniform(-delta, delta, (100, 2))
    moves[:4] = delta * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    return _equals_nearby(network, points, values, moves, (40, 10), "5 points, 100 moves each")


def section_b_4() -> SmallInstance:
    """Three symbols: x_1 == x_4, by s heads and 3^2 bumps, on all 3^5 inputs."""
    network = SymbolNetwork(5, (1, 4), 3, lambda a, b: float(a == b))
    symbols = np.array(list(itertools.product(range(3), repeat=5)))
    error = np.abs(network(symbols) - (symbols[:, 1] == symbols[:, 4])).max()
    return compared(float(error), 1e-9, "x1 == x4 over 3 symbols, T = 5, all 243 inputs: error")


def section_5_averages() -> SmallInstance:
    """W_QK = 0: the mean; keys in a subspace: the mean of members; influence of one token."""
    mean = compile_average("mean(all)", 9).certificate.worst_case_error
    members = compile_average("mean(x0..x2)", 9, eps=1e-6).certificate.worst_case_error
    gap = max(
        abs(influence_attained(n, S) - influence_bound(n, S))
        for n in (1, 10, 1000)
        for S in (0.0, 2.0)
    )
    kept = influence_bound(10**6, 0.5 * math.log(10**6))
    text = f"T = 9, all inputs: errors {mean:.1g} (all tokens), {members:.1g} (three of them); "
    text += f"influence at S = (1/2) ln T, T = 10^6: {kept:.3f}"
    holds = mean < 1e-12 and members <= 1e-6 and gap < 1e-12 and abs(kept - 1) < 1e-9
    return SmallInstance(holds, text)


def section_6_counting() -> SmallInstance:
    """One label for N = 3 ANDs of 2 of 3 bits: the best rule answers one AND for each label."""
    ands = np.array([[0, 1], [0, 2], [1, 2]])
    best = max(len(set(bits[ands].all(axis=1))) / len(ands) for bits in all_bits(3))
    allowed = counting(from_table(0b1000, (0, 1), 3), 3, 1)
    return compared(best, allowed, "3 ANDs of 2 of 3 bits, m = 1: best success <= 2^m/N")


REPRESENTATION_CHECKS = {
    "5.1": proposition_5_1,
    "B.1": proposition_b_1,
    "B.2": lemma_b_2,
    "B.3": lemma_b_3,
    "B.4": lemma_b_4,
    "B.5": lemma_b_5,
    "B.6": lemma_b_6,
    "B.7": lemma_b_7,
    "B.8": lemma_b_8,
    "Section B.4": section_b_4,
    "Section 5": section_5_averages,
    "Section 6": section_6_counting,
}
