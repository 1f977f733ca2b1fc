"""How commands speak: results, progress, and nothing mixed."""
