"""Section 4: one attention head (Corollary 4.5), several, and depth (Theorem 4.7)."""
