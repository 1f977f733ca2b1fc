"""Section 5: selection heads and read-outs, and which of them fits a function."""
