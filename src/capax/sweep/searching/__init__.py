"""Which m to try next: counts of outcomes, the success curve, and the most informative trials."""
