"""`python -m capax.cli` is the `capax` command."""

from capax.cli.main import main

main()
