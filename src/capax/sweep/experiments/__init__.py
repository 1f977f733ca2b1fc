"""Experiment files: their fields and variants, the shipped ones, and a template for new ones."""
