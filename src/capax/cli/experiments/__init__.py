"""Commands that draw data, run experiments and read what they kept."""
