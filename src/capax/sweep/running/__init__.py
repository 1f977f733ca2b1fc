"""Jobs, their runners, and a sweep in one call."""
