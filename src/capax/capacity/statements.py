"""Every statement of the paper, what it means here, who computes it and which test holds it up.

Only strings: this list is printed by `capax theorems` and by docs/theory.md without importing the
layers it names. A test resolves every function and every test.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """One statement: its number, one line of meaning, functions, tests, the constants compared."""

    number: str
    meaning: str
    functions: tuple[str, ...]
    tests: tuple[str, ...]
    paper: str = ""
    ours: str = ""


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Definition 2.1",
        "Covering number of functions on a sample: one point per function, its tuple of values.",
        ("capax.capacity.covers.covering_classes:cover_on_sample",),
        ("tests/capacity/covers/test_covering_classes.py::test_the_metric_is_the_definition",),
    ),
    Statement(
        "Definition 2.2",
        "Covering number of a parameterised class: the same number, by its parameters.",
        ("capax.capacity.covers.covering_classes:cover_of_parameters",),
        (
            "tests/capacity/covers/test_covering_classes.py"
            "::test_parameters_and_functions_have_the_same_covering_number",
        ),
    ),
    Statement(
        "Lemma 2.2",
        "From ln N <= C/eps^2 to a bound on the error, for Lipschitz, ramp and 0-1 losses.",
        (
            "capax.capacity.complexity.generalization:lemma_2_2",
            "capax.capacity.complexity.chaining:rademacher_from_cover",
            "capax.capacity.certificates.margin_bounds:margin_bound",
            "capax.capacity.certificates.margin_bounds:realizable_bound",
        ),
        (
            "tests/capacity/complexity/test_generalization.py::test_lemma_2_2_is_its_formula",
            "tests/capacity/complexity/test_chaining.py::test_closed_form_is_the_optimum_over_all_scales",
            "tests/capacity/certificates/test_margin_bounds.py::test_certificates_for_the_and_of_three_bits",
        ),
        "c sqrt(C/m) (1 + log(A sqrt(m/C)))",
        "min_n n kappa (A/kappa)^(1/n) + (n-1) kappa, kappa = sqrt(2C/m); fast rate when separable",
    ),
    Statement(
        "Definition 3.1",
        "Attention head with a context: score, normalizer, phi_in, phi_out.",
        ("capax.attention.head:Head",),
        ("tests/attention/test_head_and_layer.py::test_general_head_is_the_layer_is_pytorch",),
    ),
    Statement(
        "Definition 3.2",
        "Self-attention layer of H heads; the [CLS] row read out as a scalar.",
        ("capax.attention.layer:AttentionLayer", "capax.attention.readout:ClsScalar"),
        (
            "tests/attention/test_head_and_layer.py::test_layer_against_plain_loops",
            "tests/attention/test_readout.py::test_readout_is_a_row_of_the_full_layer",
        ),
    ),
    Statement(
        "Assumption 4.1",
        "What a head must satisfy, checked for a concrete one.",
        ("capax.capacity.weights.assumptions:assumption_4_1",),
        (
            "tests/capacity/network/test_head_bounds.py::test_normalizers_answer_whether_the_bound_applies",
            "tests/capacity/network/test_packings.py::test_the_constant_is_that_of_the_sample",
        ),
        "||J||_1,1 <= C_Norm",
        "||J||_inf->1 <= C_N, which is smaller, at the T + 1 tokens of the sample",
    ),
    Statement(
        "Theorem 4.2",
        "Cover of a head from covers of its scores and its values, at the optimal split.",
        (
            "capax.capacity.network.head_lipschitz:theorem_4_2",
            "capax.capacity.linear.allocation:allocate",
        ),
        (
            "tests/capacity/network/test_head_bounds.py::test_theorem_4_2_split_is_the_best_one",
            "tests/capacity/linear/test_allocation.py::test_split_equals_slsqp",
        ),
        "infimum over the split, all mT tokens",
        "closed form of the split; values at m pooled points only",
    ),
    Statement(
        "Lemma 4.3",
        "How far a head's output moves with its scores and values.",
        ("capax.capacity.network.head_lipschitz:head_distance",),
        (
            "tests/capacity/network/test_head_bounds.py::test_lemma_4_3_is_never_violated",
            "tests/capacity/network/test_head_bounds.py::test_lemma_4_3_is_attained_by_two_opposite_tokens",
        ),
        "C_Norm = 2 for softmax, values around 0",
        "C_N = 1 (attained), values around any centre",
    ),
    Statement(
        "Corollary 4.5",
        "ln N of one head, several heads, a scalar read-out, or an MLP on top, with constants.",
        (
            "capax.capacity.network.head_bounds:attention_head",
            "capax.capacity.network.head_bounds:scalar_head",
            "capax.capacity.network.head_bounds:linear_head",
            "capax.capacity.network.multi_head_bounds:multi_head",
            "capax.capacity.network.multi_head_bounds:mlp_head",
        ),
        (
            "tests/capacity/network/test_head_bounds.py::test_corollary_4_5_closed_form_by_hand",
            "tests/capacity/network/test_head_bounds.py"
            "::test_every_cover_grows_with_norms_radii_T_m_and_shrinks_with_eps",
            "tests/capacity/network/test_head_bounds.py"
            "::test_bound_is_above_the_packing_of_all_selection_heads",
            "tests/capacity/network/test_packings.py"
            "::test_no_packing_of_heads_is_larger_than_the_cover",
            "tests/capacity/weights/test_counterexamples.py"
            "::test_a_sparsemax_head_that_realises_all_sign_patterns_is_covered_at_its_own_T",
        ),
        "<~ ((||W_V||_2,1)^(2/3) + (||W_QK^T||_2,1 ||W_V||_2)^(2/3))^3 log(mT) / eps^2",
        "constant 2, ||W_QK||_F, recentred keys, no log T on values",
    ),
    Statement(
        "Lemma 4.6",
        "Cover of x -> Wx with a (2,1) norm, row norms not known in advance.",
        (
            "capax.capacity.linear.linear_classes:log_cover_matrix_21",
            "capax.capacity.linear.linear_classes:zhang_bound",
        ),
        (
            "tests/capacity/linear/test_linear_classes.py::test_matrix_cover_below_its_quadratic_form",
            "tests/capacity/linear/test_constructive_covers.py::test_every_matrix_has_a_centre_within_eps",
            "tests/capacity/linear/test_linear_classes.py::test_zhang_is_tens_to_hundreds_of_times_larger",
        ),
        "36 (bB/eps)^2 log(2 ceil(4bB/eps + 2) N + 1), Zhang",
        "rho (bB/eps)^2 ln(2kLN + 1), rho near 1, as an exact count",
    ),
    Statement(
        "Covers of a whole matrix",
        "By rank (W_QK = W_Q W_K^T of width r) and by absolute entries; neither feels m nor T.",
        (
            "capax.capacity.linear.structured_covers:log_cover_rank",
            "capax.capacity.linear.structured_covers:log_cover_entries",
        ),
        (
            "tests/capacity/linear/test_structured_covers.py"
            "::test_no_packing_of_low_rank_matrices_is_larger_than_the_cover",
            "tests/capacity/linear/test_structured_covers.py"
            "::test_some_mean_of_signed_units_is_within_eps_of_every_matrix",
        ),
        "not in the paper",
        "r (d + k + 1) ln(1 + 6B/eps); ln D(dk, ceil((B/eps)^2))",
    ),
    Statement(
        "Theorem 4.7",
        "Depth as a recursion over layers: paper's stack, residual blocks, LayerNorm (pre, post).",
        (
            "capax.capacity.network.paper_network:paper_network",
            "capax.capacity.network.network_bounds:residual_network",
            "capax.capacity.network.stages:compose",
        ),
        (
            "tests/capacity/network/test_network_bounds.py"
            "::test_amplifications_bound_the_error_of_perturbed_networks",
            "tests/capacity/network/test_network_bounds.py::test_residual_amplifications",
            "tests/capacity/weights/test_amplification.py::test_transformers",
            "tests/capacity/weights/test_post_layer_norm.py"
            "::test_amplifications_of_post_layer_norm_blocks",
            "tests/capacity/network/test_network_bounds.py::test_closed_form_of_two_layers_by_hand",
        ),
        "products of (1 + 4 ||W_QK||) per layer",
        "products of (1 + 2 ||W_QK||), optimal split over all pieces",
    ),
    Statement(
        "Proposition 5 (monotone symmetric)",
        "Thresholds of s bits by one head and a scalar read-out; the sign is exact everywhere.",
        ("capax.compiler.construction.threshold:scalar_readout",),
        (
            "tests/compiler/construction/test_exhaustive.py"
            "::test_scalar_read_outs_cover_exactly_the_threshold_functions",
        ),
        "approximate",
        "exact in sign at every temperature, exact worst-case margin",
    ),
    Statement(
        "Proposition 5 (symmetric)",
        "Symmetric functions by a head and at most 2s ReLU units, error 0.",
        ("capax.compiler.construction.symmetric:symmetric_readout",),
        ("tests/compiler/construction/test_exhaustive.py::test_all_functions_of_three_bits",),
        "O(s) units",
        "2s units, error 0 on all 2^T inputs",
    ),
    Statement(
        "Proposition 5 (any function)",
        "Any function of s bits by a head and 2^s to 2 2^s ReLU units.",
        (
            "capax.compiler.construction.general:exact_readout",
            "capax.compiler.construction.general:interpolating_readout",
        ),
        (
            "tests/compiler/construction/test_exhaustive.py::test_all_functions_of_three_bits",
            "tests/compiler/construction/test_exhaustive.py::test_a_thousand_random_functions_of_four_bits",
        ),
        "2^O(s) units",
        "2 2^s units, error 0; or 2^s units with the exact worst case",
    ),
    Statement(
        "Certificate",
        "Several routes at their shares of delta; a minimum only over the same predictor.",
        (
            "capax.capacity.certificates.certifying:certify",
            "capax.capacity.certificates.portfolio:assemble",
            "capax.capacity.weights.a_posteriori:round_up",
            "capax.capacity.certificates.running_error:evaluate_with_error",
        ),
        (
            "tests/capacity/certificates/test_certificate.py"
            "::test_a_description_of_another_predictor_never_speaks_for_the_model",
            "tests/capacity/certificates/test_simulated_routes.py"
            "::test_the_norm_route_holds_for_trained_heads_and_half_of_it_does_not",
            "tests/capacity/certificates/test_margin_rounding.py"
            "::test_the_error_bound_holds_against_sixty_digits",
        ),
        "not in the paper",
        "grid over norms and margins, every share of delta shown, rounding errors subtracted",
    ),
    Statement(
        "Tail inversion",
        "Hold-out and Occam by the binomial tail itself; the price of rejected training sets.",
        (
            "capax.capacity.complexity.tail_inversion:binomial_upper",
            "capax.capacity.certificates.tails:holdout_bound",
            "capax.capacity.certificates.tails:occam_tail_bound",
            "capax.capacity.certificates.tails:price_of_conditioning",
            "capax.capacity.certificates.occam:occam_bound",
        ),
        (
            "tests/capacity/complexity/test_tail_inversion.py"
            "::test_the_inverse_is_proved_and_tight_in_60_digits",
            "tests/capacity/certificates/test_tails.py"
            "::test_coverage_of_the_holdout_bound_is_exact",
            "tests/capacity/certificates/test_simulated_routes.py"
            "::test_the_bound_holds_and_half_of_it_does_not",
        ),
        "not in the paper",
        "max{p : P[Bin(m, p) <= k] >= delta 2^-bits}, below 1 for every code length",
    ),
    Statement(
        "PAC-Bayes-kl",
        "Error of a randomised predictor: a Gaussian around a network, or a version space.",
        (
            "capax.capacity.certificates.pac_bayes:pac_bayes_bound",
            "capax.capacity.certificates.pac_bayes:gaussian_pac_bayes_bound",
            "capax.capacity.certificates.pac_bayes:version_space_bound",
            "capax.capacity.certificates.gibbs:gibbs_errors",
            "capax.training.posterior:train_prior_and_posterior",
        ),
        (
            "tests/capacity/certificates/test_pac_bayes.py::test_the_bound_is_its_formula",
            "tests/capacity/certificates/test_simulated_routes.py"
            "::test_the_bound_holds_and_half_of_it_does_not",
            "tests/training/test_posterior.py::test_prior_and_posterior_give_a_certificate",
        ),
        "not in the paper",
        "kl^-1(R_n, (KL + ln(2 sqrt(n)/delta))/n), sigma from a grid, the sampled error paid for",
    ),
    Statement(
        "Linear read-out",
        "Rademacher bound of a read-out on fixed features, without a detour through covers.",
        (
            "capax.capacity.certificates.linear_readout:linear_readout_bound",
            "capax.capacity.certificates.linear_readout:linear_complexity",
        ),
        (
            "tests/capacity/certificates/test_pac_bayes.py"
            "::test_linear_complexity_is_above_the_exact_one",
            "tests/capacity/certificates/test_simulated_routes.py"
            "::test_the_bound_holds_and_half_of_it_does_not",
        ),
        "not in the paper",
        "ramp loss + 2 a b/(gamma sqrt(m)) + 3 sqrt(ln(2/delta)/2m), b measured on the sample",
    ),
)


def markdown_table() -> str:
    """The table of docs/theory.md: statement, meaning, functions, tests."""
    rows = ["| statement | meaning | function | test |", "|---|---|---|---|"]
    for s in STATEMENTS:
        functions = "<br>".join(f"`{name}`" for name in s.functions)
        tests = "<br>".join(f"`{name.removeprefix('tests/')}`" for name in s.tests)
        rows.append(f"| {s.number} | {_cell(s.meaning)} | {functions} | {tests} |")
    return "\n".join(rows)


def constants_table() -> str:
    """The second table of docs/theory.md: the paper's constants beside ours."""
    rows = ["| statement | paper | here |", "|---|---|---|"]
    rows += [f"| {s.number} | {_cell(s.paper)} | {_cell(s.ours)} |" for s in STATEMENTS if s.ours]
    return "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")
