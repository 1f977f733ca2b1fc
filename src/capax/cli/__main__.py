"""`python -m capax.cli` is `capax`."""

from capax.cli.entry import main

main()
