"""Cards: what a learner prefers, how much data it needs, beside the reference learners."""
