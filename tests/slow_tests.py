"""Tests that take several seconds each, by file. They start first, so that no worker is left alone
with one, and `make check` leaves them to `make test` unless it was their own file that changed."""

SLOW = {
    "audit/test_audit_page.py": {"test_the_page_in_a_browser"},
    "audit/test_real_checkpoints.py": {
        "test_smollm2_says_what_it_read",
        "test_rxnmapper_reads_its_head_among_those_that_look_things_up",
    },
    "boolean/test_single_swaps.py": {"test_the_bound_is_above_the_share_of_unambiguous_samples"},
    "capacity/certificates/test_simulated_routes.py": {
        "test_the_norm_route_holds_for_trained_heads_and_half_of_it_does_not",
        "test_the_bound_holds_and_half_of_it_does_not",
    },
    "capacity/network/test_packings.py": {"test_no_packing_of_heads_is_larger_than_the_cover"},
    "capacity/weights/test_amplification.py": {"test_stacks", "test_transformers"},
    "capacity/weights/test_counterexamples.py": {
        "test_the_key_bias_counts_where_it_changes_the_output"
    },
    "cards/test_card.py": {"test_an_architecture_is_tuned_searched_and_read"},
    "cli/test_bound_story.py": {"test_every_printed_bound_says_what_it_is"},
    "compiler/test_adversarial_files.py": {"test_no_accepted_file_contradicts_its_certificate"},
    "figures/test_created_variables.py": {"test_all_layers_are_measured_and_drawn"},
    "lab/test_course.py": {"test_a_lesson_runs_and_says_what_it_teaches"},
    "lab/test_lab_training.py": {
        "test_five_tabs_end_within_their_memory",
    },
    "learners/test_architectures.py": {
        "test_lanes_train_an_architecture",
    },
    "sweep/test_changed_searches.py": {"test_ambiguous_draws_are_unsolved_trials_with_a_reason"},
    "sweep/test_cluster.py": {"test_a_worker_that_dies_only_delays_its_chunk"},
    "sweep/test_kills.py": {"test_three_kills_of_a_sweep_change_nothing"},
    "sweep/test_search.py": {"test_intervals_cover_the_truth"},
    "test_documents.py": {"test_document_runs"},
    "test_mutants.py": {"test_a_fault_is_noticed_and_harmless_ones_survive"},
    "test_wheel.py": {"test_doctor_and_cite_work_alone", "test_an_experiment_by_name_works_alone"},
    "training/test_collapse.py": {"test_forward_and_gradients_are_those_of_pytorch"},
    "training/test_devices.py": {
        "test_two_devices_train_the_same_runs",
        "test_a_cpu_solves_the_runs_that_a_gpu_solved",
    },
    "training/test_engine.py": {
        "test_the_naive_path_serves_the_rest_and_says_why",
        "test_a_run_equals_the_plain_loop",
        "test_online_training_equals_a_plain_loop_on_the_same_fresh_samples",
    },
    "training/test_lanes.py": {"test_lanes_of_a_batch_agree_with_single_lanes"},
    "training/test_optimised.py": {"test_optimised_programs_train_and_certify_as_numpy_does"},
    "training/test_posterior.py": {"test_prior_and_posterior_give_a_certificate"},
}
