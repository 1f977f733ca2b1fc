"""Names and shapes of attention weights, one small file per family, all read into one form."""
