"""Training runs of the pages: one process, a queue, a run that advances chunk by chunk."""
