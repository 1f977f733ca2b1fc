"""All bounds that a model, a file or a list of norms allows, in one call."""
