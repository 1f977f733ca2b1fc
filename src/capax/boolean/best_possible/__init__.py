"""What no learner can beat: how many examples anyone needs."""
