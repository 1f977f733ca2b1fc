"""Commands about this machine: does it work, and how fast."""
