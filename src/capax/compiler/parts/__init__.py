"""Parts of a construction: the selection head, its temperature and codes, literals, read-outs."""
