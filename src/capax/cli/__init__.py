"""The `capax` command. One file per command; heavy imports are inside the command functions.

`entry` starts and ends every command (`signals`), `main` assembles them. The commands are in
folders by subject (`theory`, `networks`, `experiments`, `publishing`, `machine`) and print through
`speaking`.
"""
