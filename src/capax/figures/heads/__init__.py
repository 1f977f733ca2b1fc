"""Pictures of attention: what it is, what was compiled, what a trained head looks at."""
