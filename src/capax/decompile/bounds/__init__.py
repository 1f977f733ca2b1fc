"""From the formula and the training data to bounds on the network's error."""
