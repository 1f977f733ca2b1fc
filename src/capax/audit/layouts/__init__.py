"""Names and shapes of attention weights of every family, all read into one form."""
