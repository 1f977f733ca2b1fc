"""The report: one HTML file with the figures, the tables and every run behind every number.

`sections` makes the parts from the same data as the printed figures (`charts` for the browser,
`vector` for the printed ones, `tables` for both), `provenance` and `records` lead from numbers to
runs, `page` puts everything into one self-contained file with the hand-written styles and scripts
of `assets`, and `build` does it all for a list of stores.
"""

from capax.callable_packages import make_callable

make_callable(__name__, "capax.report.build:report")
