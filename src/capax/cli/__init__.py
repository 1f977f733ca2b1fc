"""The `capax` command. One file per command; heavy imports live inside the command functions."""
