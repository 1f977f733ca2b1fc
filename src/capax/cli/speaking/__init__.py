"""Output of the commands: results, notes, progress."""
