"""What is the same for every learner of a card: targets, protocol, sizes."""
