"""Rows of Sections 2 to 4."""

from capax.statements.rows.statement import Statement

SECTION_ROWS: tuple[Statement, ...] = (
    Statement(
        "Section 2",
        "Linear classes: ln N is at most (B_X B_W/eps)^2 times a logarithm of m.",
        ("capax.capacity.linear.linear_classes:log_cover_vector",),
        (
            "tests/capacity/linear/test_linear_classes.py"
            "::test_zhang_is_tens_to_hundreds_of_times_larger",
        ),
        paper="O((B_X B_W/eps)^2 log(B_X B_W m/eps)), log N meant",
        ours="ln D(m, K), K < (B_X B_W/eps)^2",
    ),
    Statement(
        "2.1",
        "Covering number of functions on a sample, one point per function; the same by parameters.",
        (
            "capax.capacity.covers.covering_classes:cover_on_sample",
            "capax.capacity.covers.covering_classes:cover_of_parameters",
        ),
        (
            "tests/capacity/covers/test_covering_classes.py::test_the_metric_is_the_definition",
            "tests/capacity/covers/test_covering_classes.py"
            "::test_parameters_and_functions_have_the_same_covering_number",
        ),
        kind="Definition",
    ),
    Statement(
        "2.2",
        "From ln N <= C/eps^2 to a bound on the error, for Lipschitz, ramp and 0-1 losses.",
        (
            "capax.capacity.complexity.generalization:lemma_2_2",
            "capax.capacity.complexity.chaining:rademacher_from_cover",
            "capax.capacity.margins.margin_bounds:margin_bound",
            "capax.capacity.margins.margin_bounds:realizable_bound",
        ),
        (
            "tests/capacity/complexity/test_generalization.py::test_lemma_2_2_is_its_formula",
            "tests/capacity/complexity/test_chaining.py"
            "::test_closed_form_is_the_optimum_over_all_scales",
            "tests/capacity/certificates/test_margin_bounds.py"
            "::test_certificates_for_the_and_of_three_bits",
        ),
        kind="Lemma",
        paper="c sqrt(C/m) (1 + log(A sqrt(m/C)))",
        ours="min_n n kappa (A/kappa)^(1/n) + (n-1) kappa, kappa = sqrt(2C/m); fast "
        "rate when separable",
    ),
    Statement(
        "3.1",
        "Attention head with a context: score, normalizer, phi_in, phi_out.",
        ("capax.attention.head:Head",),
        ("tests/attention/test_head_and_layer.py::test_general_head_is_the_layer_is_pytorch",),
        kind="Definition",
    ),
    Statement(
        "3.2",
        "Self-attention layer of H heads; the [CLS] row read out as a scalar.",
        (
            "capax.attention.layer:AttentionLayer",
            "capax.attention.readout:ClsScalar",
        ),
        (
            "tests/attention/test_head_and_layer.py::test_layer_against_plain_loops",
            "tests/attention/test_readout.py::test_readout_is_a_row_of_the_full_layer",
        ),
        kind="Definition",
    ),
    Statement(
        "4.1",
        "The assumptions about a head, checked for a concrete head.",
        ("capax.capacity.weights.assumptions:assumption_4_1",),
        (
            "tests/capacity/network/test_head_bounds.py"
            "::test_normalizers_answer_whether_the_bound_applies",
            "tests/capacity/network/test_packings.py::test_the_constant_is_that_of_the_sample",
        ),
        kind="Assumption",
        paper="||J||_1,1 <= C_Norm",
        ours="||J||_inf->1 <= C_N, which is smaller, at the T + 1 tokens of the sample",
    ),
    Statement(
        "4.2",
        "Cover of a head from covers of its scores and its values: any split, or the optimal one.",
        (
            "capax.capacity.network.head_lipschitz:theorem_4_2",
            "capax.capacity.linear.allocation:allocate",
            "capax.statements.forms.printed_bounds:theorem_4_2_split",
        ),
        (
            "tests/capacity/network/test_head_bounds.py::test_theorem_4_2_split_is_the_best_one",
            "tests/capacity/linear/test_allocation.py::test_split_equals_slsqp",
            "tests/statements/test_printed_bounds.py::test_any_split_and_any_covers_serve_the_head",
        ),
        kind="Theorem",
        paper="infimum over the split, all mT tokens",
        ours="closed form of the split; values at m pooled points only",
    ),
    Statement(
        "4.3",
        "Change of a head's output when its scores and values change.",
        ("capax.capacity.network.head_lipschitz:head_distance",),
        (
            "tests/capacity/network/test_head_bounds.py::test_lemma_4_3_is_never_violated",
            "tests/capacity/network/test_head_bounds.py"
            "::test_lemma_4_3_is_attained_by_two_opposite_tokens",
        ),
        kind="Lemma",
        paper="C_Norm = 2 for softmax, values around 0",
        ours="C_N = 1 (attained), values around any centre",
    ),
    Statement(
        "4.4",
        "T heads of width 3 give log2 T inputs all T sign patterns; their norms and margins.",
        (
            "capax.statements.forms.head_shattering:shatter",
            "capax.statements.forms.head_shattering:smallest_norm",
        ),
        (
            "tests/statements/test_head_shattering.py"
            "::test_the_margins_are_those_of_the_forward_pass",
            "tests/statements/test_head_shattering.py"
            "::test_every_norm_shatters_and_margins_cost_norm",
        ),
        kind="Proposition",
        paper="norm T^2, weight on s above 1/2",
        ours="every norm > 0; a margin of 1/4 needs 0.0907 T^2",
    ),
    Statement(
        "4.5",
        "ln N of one head, several heads, a scalar read-out, or an MLP on top, with constants.",
        (
            "capax.capacity.network.head_bounds:attention_head",
            "capax.capacity.network.head_bounds:scalar_head",
            "capax.capacity.network.head_bounds:linear_head",
            "capax.capacity.network.multi_head_bounds:multi_head",
            "capax.capacity.network.multi_head_bounds:mlp_head",
            "capax.statements.forms.printed_bounds:corollary_4_5_printed",
        ),
        (
            "tests/capacity/network/test_head_bounds.py::test_corollary_4_5_closed_form_by_hand",
            "tests/capacity/network/test_head_bounds.py"
            "::test_every_cover_is_below_its_closed_form_which_grows",
            "tests/capacity/network/test_head_bounds.py"
            "::test_bound_is_above_the_packing_of_all_selection_heads",
            "tests/capacity/network/test_packings.py"
            "::test_no_packing_of_heads_is_larger_than_the_cover",
            "tests/capacity/weights/test_counterexamples.py"
            "::test_a_sparsemax_head_that_realises_all_sign_patterns_is_covered_at_its_own_T",
            "tests/statements/test_printed_bounds.py"
            "::test_no_packing_of_heads_is_larger_than_the_corrected_bounds",
        ),
        kind="Corollary",
        paper="(L B_X)^2 (B_V21^(2/3) + (2 B_QK21 B_V B_X^2)^(2/3))^3 log(dmT)/eps^2, "
        "corrected, up to a constant",
        ours="constant 2, ||W_QK||_F, recentred keys, no log T on values",
    ),
    Statement(
        "4.6",
        "Cover of x -> Wx with a (2,1) norm, row norms not known in advance.",
        (
            "capax.capacity.linear.linear_classes:log_cover_matrix_21",
            "capax.capacity.linear.linear_classes:zhang_bound",
            "capax.statements.forms.printed_bounds:lemma_4_6_two_stages",
        ),
        (
            "tests/capacity/linear/test_linear_classes.py"
            "::test_matrix_cover_below_its_quadratic_form",
            "tests/capacity/linear/test_constructive_covers.py"
            "::test_every_matrix_has_a_centre_within_eps",
            "tests/capacity/linear/test_linear_classes.py"
            "::test_zhang_is_tens_to_hundreds_of_times_larger",
            "tests/statements/test_printed_bounds.py"
            "::test_the_two_stages_of_lemma_4_6_are_above_a_packing_and_our_cover",
        ),
        kind="Lemma",
        paper="ceil((B_X B_W/e_1)^2) ln(2 d_1 + 1) + 36 (B_X B_W/e_2)^2 log(...), in two stages",
        ours="rho (bB/eps)^2 ln(2kLN + 1), rho near 1, as an exact count",
    ),
    Statement(
        "4.7",
        "Depth as a recursion over layers: paper's stack, residual blocks, LayerNorm (pre, post).",
        (
            "capax.capacity.network.paper_network:paper_network",
            "capax.capacity.network.network_bounds:residual_network",
            "capax.capacity.network.stages:compose",
            "capax.statements.forms.printed_bounds:theorem_4_7_equal_layers",
        ),
        (
            "tests/capacity/network/test_network_bounds.py"
            "::test_amplifications_bound_the_error_of_perturbed_networks",
            "tests/capacity/network/test_network_bounds.py::test_residual_amplifications",
            "tests/capacity/weights/test_amplification.py::test_transformers",
            "tests/capacity/weights/test_post_layer_norm.py"
            "::test_amplifications_of_post_layer_norm_blocks",
            "tests/capacity/network/test_network_bounds.py::test_closed_form_of_two_layers_by_hand",
            "tests/statements/test_printed_bounds.py::test_depth_as_printed_and_as_corrected",
        ),
        kind="Theorem",
        paper="products of (1 + 4 ||W_QK||) per layer",
        ours="products of (1 + 2 ||W_QK||), optimal split over all pieces",
    ),
    Statement(
        "Section 4.2",
        "Remarks: a residual connection adds at most 1 to the Lipschitz constant of a layer.",
        ("capax.capacity.network.network_bounds:residual_network",),
        ("tests/capacity/network/test_network_bounds.py::test_residual_amplifications",),
    ),
)
