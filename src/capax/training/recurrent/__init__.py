"""Recurrent cells over long inputs: the whole loop over positions as one kernel on a GPU."""
