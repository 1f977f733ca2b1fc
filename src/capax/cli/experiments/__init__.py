"""Commands that draw data, run experiments and read stores."""
