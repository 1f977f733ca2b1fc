"""Commands whose results are shown to others: figures, pages, citations."""
