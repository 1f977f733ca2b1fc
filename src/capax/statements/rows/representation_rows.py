"""Rows of Sections 5 and 6 and of Appendix B."""

from capax.statements.rows.statement import Statement

_BUMP_TESTS = (
    "tests/compiler/construction/test_bump_network.py"
    "::test_networks_have_the_printed_widths_and_norms",
    "tests/compiler/construction/test_bump_network.py::test_an_error_of_a_quarter_is_forgiven",
)
REPRESENTATION_ROWS: tuple[Statement, ...] = (
    Statement(
        "5.1",
        "Sparse functions by one head: thresholds, symmetric ones with 2s units, any with 2 2^s.",
        (
            "capax.compiler.construction.threshold_head:scalar_readout",
            "capax.compiler.construction.symmetric:symmetric_readout",
            "capax.compiler.construction.general:exact_readout",
            "capax.compiler.construction.general:interpolating_readout",
        ),
        (
            "tests/compiler/construction/test_exhaustive.py"
            "::test_scalar_read_outs_cover_exactly_the_threshold_functions",
            "tests/compiler/construction/test_exhaustive.py::test_all_functions_of_three_bits",
            "tests/compiler/construction/test_exhaustive.py::test_random_functions_of_four_bits",
        ),
        kind="Proposition",
        paper="approximate monotone; exact with O(poly(s)) and O(2^s poly(s)) weights",
        ours="thresholds exact in sign; symmetric 2s units, any function 2 2^s units, error 0",
    ),
    Statement(
        "B.1",
        "The same for each encoding: the paper's heads, followed by the networks of B.5 and B.6.",
        (
            "capax.compiler.paper.paper_heads:paper_heads",
            "capax.compiler.paper.bump_network:symmetric_network",
            "capax.compiler.paper.bump_network:injective_network",
        ),
        (
            "tests/compiler/construction/test_paper_heads.py"
            "::test_all_functions_of_three_bits_as_the_paper_builds_them",
        ),
        kind="Proposition",
        paper="1 head, or s heads; 3-layer networks",
        ours="1 head; 2-layer networks",
    ),
    Statement(
        "B.2",
        "Fixed positions: the mean of s bits by one head, each bit by s heads.",
        ("capax.compiler.paper.paper_heads:paper_heads",),
        (
            "tests/compiler/construction/test_paper_heads.py"
            "::test_heads_approximate_their_function_within_their_norms",
            "tests/compiler/construction/test_paper_heads.py::test_codes_need_the_dual_basis",
        ),
        kind="Lemma",
        paper="||W_Q|| <= log(8T/gamma)/(1 - s Delta), ||W_K|| <= s",
        ours="(1 - (2s-1) Delta)/(1 - (s-1) Delta) in place of 1 - s Delta, ||W_K|| "
        "<= sqrt(s/(1 - (s-1) Delta))",
    ),
    Statement(
        "B.3",
        "Trained positions: the same with ||P^T||_2,1 <= s.",
        ("capax.compiler.paper.paper_heads:paper_heads",),
        (
            "tests/compiler/construction/test_paper_heads.py"
            "::test_heads_approximate_their_function_within_their_norms",
        ),
        kind="Lemma",
        paper="||W_Q|| <= log(8T/gamma), ||W_K|| <= 1",
        ours="the same",
    ),
    Statement(
        "B.4",
        "Bag of vectors: (r - s)/(r + 1) or the vector (b_i - 1)/(r + 1) by one head.",
        ("capax.compiler.paper.paper_heads:paper_heads",),
        (
            "tests/compiler/construction/test_paper_heads.py"
            "::test_heads_approximate_their_function_within_their_norms",
            "tests/compiler/construction/test_paper_heads.py::test_codes_need_the_dual_basis",
        ),
        kind="Lemma",
        paper="log(8Ts(1 + Delta)/(gamma - s Delta))/(1 - s Delta)",
        ours="log(8Ts(1 + Delta)/gamma) (1 - (s-1) Delta)/(1 - (2s-1) Delta)",
    ),
    Statement(
        "B.5",
        "From a monotone function to any symmetric one: widths 4(s+1), 2(s+1).",
        ("capax.compiler.paper.bump_network:symmetric_network",),
        _BUMP_TESTS,
        kind="Lemma",
        paper="delta = gamma/8",
        ours="delta = gamma/4, same norms",
    ),
    Statement(
        "B.6",
        "From an injective function to any function: widths 4 s 2^s, 2 2^s.",
        ("capax.compiler.paper.bump_network:injective_network",),
        _BUMP_TESTS,
        kind="Lemma",
        paper="delta = gamma/8",
        ours="delta = gamma/4, same norms",
    ),
    Statement(
        "B.7",
        "Softmax without its small scores.",
        ("capax.statements.forms.inequalities:truncation_distance",),
        (
            "tests/statements/test_inequalities.py::test_small_scores_hardly_matter",
            "tests/statements/test_inequalities.py::test_smaller_constants_fail",
        ),
        kind="Lemma",
        paper="2 (T - s)/(s e^R)",
        ours="the same, tight for equal scores",
    ),
    Statement(
        "B.8",
        "A 3-layer ReLU network that equals f around separated points.",
        ("capax.compiler.paper.bump_network:bump_network",),
        (
            "tests/compiler/construction/test_bump_network.py::test_values_around_separated_points",
            "tests/compiler/construction/test_bump_network.py::test_planted_faults_are_seen",
        ),
        kind="Lemma",
        paper="||W_1|| <= max(1, B)/delta, an odd bump",
        ours="max(1, B + 2 delta)/delta, delta <= 1, an even bump",
    ),
    Statement(
        "Section B.4",
        "Beyond Boolean: tokens from M symbols, s heads and M^s bumps.",
        ("capax.statements.forms.symbol_network:SymbolNetwork",),
        ("tests/statements/test_symbol_network.py::test_functions_of_symbols_are_exact",),
        paper="s M^s parameters",
        ours="4 s M^s and 2 M^s units",
    ),
    Statement(
        "Section 5",
        "Remarks: averages, averages over a subspace, the influence of one token.",
        (
            "capax.compiler.extensions.averages:compile_average",
            "capax.statements.forms.token_influence:influence_bound",
            "capax.statements.forms.token_influence:smallest_score",
            "capax.statements.forms.token_influence:head_influence",
        ),
        (
            "tests/compiler/test_averages.py::test_the_error_is_that_of_all_inputs",
            "tests/statements/test_token_influence.py"
            "::test_the_influence_of_a_token_is_attained_and_never_exceeded",
            "tests/statements/test_token_influence.py::test_a_smaller_bound_is_refuted",
            "tests/statements/test_token_influence.py"
            "::test_the_influence_of_a_head_is_that_over_all_inputs",
        ),
        paper="approaches 0 at constant norms",
        ours="2B/(1 + T e^(-2S)), attained; margin gamma needs S >= (1/2) ln(T gamma/(B - gamma))",
    ),
    Statement(
        "Section 6",
        "m labels distinguish at most 2^m of N rules: P(success) <= 2^m/N.",
        ("capax.boolean.best_possible.limits:counting",),
        ("tests/statements/test_symbol_network.py::test_no_rule_beats_counting",),
        paper="Omega(log N)",
        ours="2^m/N",
    ),
)
