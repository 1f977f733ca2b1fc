"""The common settings of all learners of a card: targets, protocol, sizes."""
