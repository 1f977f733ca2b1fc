"""Small instances: every statement evaluated once, and every printed form that fails."""
