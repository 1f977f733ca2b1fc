"""One row for each statement: its words, its functions and its tests."""
