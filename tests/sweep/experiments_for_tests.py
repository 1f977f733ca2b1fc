"""A small experiment with a simulated learner, used all over these tests."""


def fields(**changes):
    return {
        "name": "small",
        "claim": "a test",
        "model": {"family": "simulated", "threshold": 13.0, "growth": 2.0, "spread": 0.3},
        "training": {"restarts": 3},
        "panels": {
            "threshold": {
                "T": [7, 31],
                "search": {
                    "m_low": 5,
                    "m_high": 90,
                    "batch": 6,
                    "min_trials": 12,
                    "max_trials": 24,
                },
            },
            "curves": {"T": [11], "search": {"method": "grid", "m": [5, 40], "trials": 3}},
        },
        "scales": {"quick": {}, "paper": {"panels": {"threshold": {"T": [7, 31, 101]}}}},
        **changes,
    }
