"""Jobs, the runners that work on them, and a sweep in one call."""
