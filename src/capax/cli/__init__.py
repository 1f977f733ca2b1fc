"""The `capax` command. One file per command; heavy imports live inside the command functions.

`entry` begins and ends every command (`signals`), `main` assembles them. They stand in rooms by
what they are about (`theory`, `networks`, `experiments`, `publishing`, this `machine`) and talk to
the user through `speaking`.
"""
