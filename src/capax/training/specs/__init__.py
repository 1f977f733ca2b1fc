"""Specifications of trials and runs, their results, and the hardware."""
