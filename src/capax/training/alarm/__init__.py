"""An alarm: from what a run has recorded so far, will it be solved, and when?"""
