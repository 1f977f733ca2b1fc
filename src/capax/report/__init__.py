"""The report: one HTML file with figures, tables and the runs that every number comes from.

`sections` makes the parts from the same data as the printed figures: `charts` for the browser,
`vector` for the printed ones, `page_tables` for both. `provenance` and `records` link numbers to
runs. `page` puts everything into one self-contained file with the styles and scripts of `assets`,
and `build` does all of this for a list of stores.
"""

from capax.callable_packages import make_callable

make_callable(__name__, "capax.report.build:report")
