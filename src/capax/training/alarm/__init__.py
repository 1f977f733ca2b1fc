"""An alarm: will a run be solved, and when, judged by its measurements so far?"""
