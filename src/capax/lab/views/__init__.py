"""The views: their questions, and the functions that answer them."""
