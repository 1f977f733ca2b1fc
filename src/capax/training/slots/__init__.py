"""Runs on their way through the slots of workers."""
