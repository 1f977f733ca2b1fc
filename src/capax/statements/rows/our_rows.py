"""Rows of statements that the paper does not have."""

from capax.statements.rows.statement import Statement

OUR_ROWS: tuple[Statement, ...] = (
    Statement(
        "Covers of a whole matrix",
        "By rank (W_QK = W_Q W_K^T of width r) and by absolute entries; neither depends on m or T.",
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
        paper="not in the paper",
        ours="r (d + k + 1) ln(1 + 6B/eps); ln D(dk, ceil((B/eps)^2))",
        in_paper=False,
    ),
    Statement(
        "Certificate",
        "Several routes at their shares of delta; a minimum only over the same predictor.",
        (
            "capax.capacity.routes.certifying:certify",
            "capax.capacity.certificates.portfolio:assemble",
            "capax.capacity.weights.a_posteriori:round_up",
            "capax.capacity.margins.running_error:evaluate_with_error",
        ),
        (
            "tests/capacity/certificates/test_certificate.py"
            "::test_a_description_of_another_predictor_never_speaks_for_the_model",
            "tests/capacity/certificates/test_simulated_routes.py"
            "::test_the_norm_route_holds_for_trained_heads_and_half_of_it_does_not",
            "tests/capacity/certificates/test_margin_rounding.py"
            "::test_the_error_bound_holds_against_sixty_digits",
        ),
        paper="not in the paper",
        ours="grid over norms and margins, every share of delta shown, rounding errors subtracted",
        in_paper=False,
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
        paper="not in the paper",
        ours="max{p : P[Bin(m, p) <= k] >= delta 2^-bits}, below 1 for every code length",
        in_paper=False,
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
        paper="not in the paper",
        ours="kl^-1(R_n, (KL + ln(2 sqrt(n)/delta))/n), sigma from a grid, the "
        "sampled error paid for",
        in_paper=False,
    ),
    Statement(
        "Linear read-out",
        "Rademacher bound of a read-out on fixed features, without covers.",
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
        paper="not in the paper",
        ours="ramp loss + 2 a b/(gamma sqrt(m)) + 3 sqrt(ln(2/delta)/2m), b measured on the sample",
        in_paper=False,
    ),
    Statement(
        "Statistical queries",
        "Parities of s of T bits are uncorrelated: needed queries and noisy gradient steps.",
        (
            "capax.capacity.complexity.statistical_queries:queries_needed",
            "capax.capacity.complexity.statistical_queries:steps_needed",
        ),
        (
            "tests/capacity/complexity/test_parity_limits.py"
            "::test_no_query_tells_more_parities_apart",
            "tests/capacity/complexity/test_parity_limits.py"
            "::test_noisy_gradients_succeed_no_more_often",
        ),
        paper="not in the paper",
        ours="q >= (p C(T, s) - 1/gamma^2)/(ceil(1/tau^2) - 1); "
        "t >= 4 C(T, s) (sigma/G)^2 (p - 1/(gamma^2 C(T, s)))^2",
        in_paper=False,
    ),
    Statement(
        "Average sensitivity of a head",
        "A head with U hidden units has at most K times the sensitivity of majority: parity of "
        "all bits is impossible beyond an explicit T; a linear read-out needs a head for each bit.",
        (
            "capax.capacity.complexity.average_sensitivity:head_sensitivity_bound",
            "capax.capacity.complexity.average_sensitivity:longest_parity",
            "capax.capacity.complexity.average_sensitivity:parity_by_heads",
        ),
        (
            "tests/capacity/complexity/test_parity_limits.py"
            "::test_no_head_that_a_search_finds_is_more_sensitive",
            "tests/capacity/complexity/test_parity_limits.py"
            "::test_parity_of_all_bits_by_as_many_heads_and_no_fewer",
            "tests/capacity/complexity/test_parity_limits.py::test_full_parity_does_not_compile",
        ),
        paper="not in the paper",
        ours="K M(T), M(T) = T C(T-1, floor((T-1)/2))/2^(T-1) <= sqrt(T); K = 1 (linear), "
        "U + 1 (d = 1), U + sum_{j<=d} C(U, j)",
        in_paper=False,
    ),
    Statement(
        "Degree and leap",
        "Fourier degree, and how many new bits must be found at once (Abbe et al. 2023).",
        (
            "capax.boolean.traits.fourier:degree",
            "capax.boolean.traits.leap:leap",
        ),
        (
            "tests/boolean/test_functions.py::test_all_functions_of_three_bits_against_brute_force",
            "tests/cards/test_targets.py::test_leap_is_the_best_order",
        ),
        paper="not in the paper",
        ours="exact, from the truth table; any P(bit = 1)",
        in_paper=False,
    ),
)
