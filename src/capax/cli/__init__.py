"""The `capax` command. One file per command; heavy imports live inside the command functions.

`entry` begins and ends every command (`signals`), `main` assembles them. The commands stand in
folders by subject (`theory`, `networks`, `experiments`, `publishing`, `machine`) and print through
`speaking`.
"""
