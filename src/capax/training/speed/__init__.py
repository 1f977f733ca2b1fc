"""How fast this machine trains, against rivals and its own ceilings."""
