"""Rows of Appendix A."""

from capax.statements.rows.statement import Statement

APPENDIX_A_ROWS: tuple[Statement, ...] = (
    Statement(
        "A.1",
        "Empirical Rademacher complexity, without an absolute value.",
        ("capax.capacity.complexity.rademacher:rademacher_exact",),
        (
            "tests/statements/test_printed_bounds.py"
            "::test_rademacher_of_two_constants_is_a_binomial_coefficient",
        ),
        kind="Definition",
    ),
    Statement(
        "A.2",
        "Dudley: from covering numbers to the Rademacher complexity.",
        (
            "capax.statements.forms.printed_bounds:dudley_printed",
            "capax.capacity.complexity.chaining:dudley",
        ),
        ("tests/statements/test_printed_bounds.py::test_dudley_is_above_the_exact_complexity",),
        kind="Lemma",
        paper="c inf_delta(delta + int_delta^A sqrt(ln N/m)), some c",
        ours="c = 12; the discrete chain is smaller",
    ),
    Statement(
        "A.3",
        "The same for ln N <= C/eps^2.",
        (
            "capax.statements.forms.printed_bounds:rademacher_corrected",
            "capax.statements.forms.printed_bounds:rademacher_printed",
        ),
        ("tests/statements/test_printed_bounds.py::test_the_corrected_form_is_the_infimum",),
        kind="Corollary",
        paper="c sqrt(C/m) (1 + log(A sqrt(m/C)))",
        ours="c min(A, sqrt(C/m) (1 + max(0, log(A sqrt(m/C)))))",
    ),
    Statement(
        "A.4",
        "Risk and empirical risk by the Rademacher complexity, both sides at once.",
        (
            "capax.statements.forms.printed_bounds:deviation_corrected",
            "capax.statements.forms.printed_bounds:deviation_printed",
        ),
        (
            "tests/statements/test_printed_bounds.py"
            "::test_deviations_of_coins_stay_within_the_corrected_bound",
        ),
        kind="Theorem",
        paper="4 L R + 2 b sqrt(log(1/delta)/(2m))",
        ours="2 L R + 3 b sqrt(log(4/delta)/(2m))",
    ),
    Statement(
        "A.5",
        "Lemma 2.2 in full: A.3 and A.4 together.",
        ("capax.statements.forms.printed_bounds:lemma_a_5",),
        ("tests/statements/test_printed_bounds.py::test_lemma_a_5_is_a_3_and_a_4",),
        kind="Lemma",
        paper="4 c L sqrt(C/m) (1 + log(A sqrt(m/C))) + 2 b sqrt(log(1/delta)/(2m))",
        ours="2 L times A.3 + 3 b sqrt(log(4/delta)/(2m)), c = 12",
    ),
    Statement(
        "A.6",
        "The change of a map to the simplex is at most the absolute sum of its Jacobian.",
        ("capax.statements.forms.inequalities:simplex_map",),
        (
            "tests/statements/test_inequalities.py"
            "::test_maps_to_the_simplex_move_by_their_jacobian",
            "tests/statements/test_inequalities.py::test_smaller_constants_fail",
        ),
        kind="Lemma",
        paper="c_f = sup ||J||_1,1",
        ours="sup ||J||_inf->1, which is smaller",
    ),
    Statement(
        "A.7",
        "Softmax in 1-norm against the largest change of a score.",
        (
            "capax.statements.forms.inequalities:softmax_distance",
            "capax.statements.forms.inequalities:softmax_jacobian_size",
        ),
        (
            "tests/statements/test_inequalities.py::test_softmax_moves_by_the_largest_change",
            "tests/statements/test_inequalities.py::test_smaller_constants_fail",
        ),
        kind="Corollary",
        paper="2",
        ours="1, attained",
    ),
    Statement(
        "A.8",
        "The optimal split of eps: gamma^3/C^2.",
        (
            "capax.statements.forms.printed_bounds:split_value",
            "capax.capacity.linear.allocation:allocate",
        ),
        (
            "tests/statements/test_inequalities.py::test_no_feasible_split_is_better",
            "tests/statements/test_inequalities.py::test_smaller_constants_fail",
            "tests/capacity/linear/test_allocation.py::test_split_equals_slsqp",
        ),
        kind="Lemma",
    ),
    Statement(
        "A.9",
        "Projection onto the unit ball contracts.",
        ("capax.statements.forms.inequalities:projection_distance",),
        (
            "tests/statements/test_inequalities.py::test_projection_contracts",
            "tests/statements/test_inequalities.py::test_smaller_constants_fail",
        ),
        kind="Lemma",
    ),
    Statement(
        "A.10",
        "Zhang's cover of linear functions.",
        ("capax.capacity.linear.linear_classes:zhang_bound",),
        (
            "tests/statements/test_printed_bounds.py"
            "::test_zhang_lies_above_a_packing_and_a_proved_cover",
        ),
        kind="Lemma",
        paper="36 (B_1 B_2/eps)^2 log(2 ceil(4 B_1 B_2/eps + 2) N + 1)",
        ours="K ln(2N + 1), K < (B_1 B_2/eps)^2",
    ),
    Statement(
        "A.11",
        "Fixed positions: Corollary 4.5 at B_X + B_P.",
        ("capax.statements.forms.printed_bounds:lemma_a_11",),
        (
            "tests/statements/test_printed_bounds.py"
            "::test_no_packing_of_heads_is_larger_than_the_corrected_bounds",
            "tests/statements/test_printed_bounds.py::test_printed_bounds_fail_for_long_tokens",
        ),
        kind="Lemma",
        paper="(2 B_QK21 B_V (B_X + B_P))^(2/3)",
        ours="one factor B_X + B_P more; constants of Corollary 4.5",
    ),
    Statement(
        "A.12",
        "Sum of H heads.",
        (
            "capax.statements.forms.printed_bounds:lemma_a_12",
            "capax.capacity.network.multi_head_bounds:multi_head",
        ),
        (
            "tests/statements/test_printed_bounds.py"
            "::test_no_packing_of_heads_is_larger_than_the_corrected_bounds",
            "tests/statements/test_printed_bounds.py::test_printed_bounds_fail_for_long_tokens",
        ),
        kind="Lemma",
        paper="(2 B_QK21 B_V)^(2/3) inside the sum, H^3 for equal heads",
        ours="a factor B_X^2 more inside; constants of Corollary 4.5",
    ),
    Statement(
        "A.13",
        "Change of a head when its weights change.",
        ("capax.statements.forms.inequalities:weight_distance",),
        (
            "tests/statements/test_inequalities.py::test_heads_move_with_their_weights",
            "tests/statements/test_inequalities.py::test_smaller_constants_fail",
        ),
        kind="Lemma",
        paper="2 ||W_V|| max ||dW_QK z|| + max ||dW_V^T z||",
        ours="1 in place of 2",
    ),
    Statement(
        "A.14",
        "Change of a head when its input changes.",
        ("capax.statements.forms.inequalities:input_distance",),
        (
            "tests/statements/test_inequalities.py::test_heads_move_with_their_input",
            "tests/statements/test_inequalities.py::test_smaller_constants_fail",
        ),
        kind="Lemma",
        paper="||W_V|| (1 + 4 ||W_QK||)",
        ours="||W_V|| (1 + 2 ||W_QK||)",
    ),
    Statement(
        "A.15",
        "Change of a block when its input and its weights change.",
        ("capax.statements.forms.inequalities:block_distance",),
        (
            "tests/statements/test_inequalities.py::test_blocks_move_by_four_terms",
            "tests/statements/test_inequalities.py::test_smaller_constants_fail",
        ),
        kind="Lemma",
    ),
    Statement(
        "A.16",
        "Change of the scalar output when the network and the read-out change.",
        ("capax.statements.forms.inequalities:scalar_distance",),
        (
            "tests/statements/test_inequalities.py::test_the_scalar_output_moves_by_two_terms",
            "tests/statements/test_inequalities.py::test_smaller_constants_fail",
        ),
        kind="Lemma",
    ),
    Statement(
        "A.17",
        "Depth in full: L layers and a read-out.",
        (
            "capax.statements.forms.printed_bounds:theorem_a_17",
            "capax.statements.forms.printed_bounds:summed_errors",
            "capax.statements.forms.depth_order:restored_form",
            "capax.capacity.network.paper_network:paper_network",
        ),
        (
            "tests/statements/test_printed_bounds.py::test_depth_as_printed_and_as_corrected",
            "tests/statements/test_printed_bounds.py::test_printed_bounds_fail_for_long_tokens",
            "tests/statements/test_depth_order.py"
            "::test_the_printed_form_has_the_product_of_all_gains",
        ),
        kind="Theorem",
        paper="(B_w^(2/3) + sum alpha_i^(2/3) [...])^3 log(dmT)/eps^2, alpha_i over j < i",
        ours="B_w alpha_i in the sum, alpha_i over j > i, no factors d, k",
    ),
    Statement(
        "Section A.5",
        "Trained positions may cost T ln 2: all sign vectors of T positions have other outputs.",
        ("capax.statements.forms.sign_packing:trained_position_outputs",),
        (
            "tests/statements/test_printed_bounds.py"
            "::test_trained_positions_tell_all_sign_vectors_apart",
        ),
        paper="could become linear in T",
        ours="2^T functions on T sequences",
    ),
    Statement(
        "Section A.6",
        "H equal heads cost H^3 times one.",
        ("capax.statements.forms.printed_bounds:lemma_a_12",),
        ("tests/statements/test_printed_bounds.py::test_equal_heads_cost_their_cube",),
    ),
)
