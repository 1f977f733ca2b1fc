"""Reading weights from disk: four formats, one kind of result. No code of a file is run."""
