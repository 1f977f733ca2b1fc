"""Which m to try next: outcomes counted, the success curve, and where the next trials pay most."""
