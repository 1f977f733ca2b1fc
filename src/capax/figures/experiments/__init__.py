"""Pictures of experiments, drawn from small records: curves, transitions, thresholds."""
