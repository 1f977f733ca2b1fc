"""The relevant bits of a model, its function of them, and its shortest formula."""
