"""From a class and a sample to "with probability 1 - delta, error <= ..."."""
