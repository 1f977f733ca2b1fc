"""Training runs of the pages: one process, a queue, a run between its looks."""
