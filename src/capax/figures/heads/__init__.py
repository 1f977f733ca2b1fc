"""Pictures of attention: its definition, compiled functions, and trained or audited heads."""
