"""VC, fat-shattering and Rademacher complexity, chaining, and Lemma 2.2 (Section 2)."""
