"""From trained weights back to a formula, and from sixty examples to a certificate.

`reading`: `oracle` evaluates any model; `influence` finds the relevant bits by group testing,
`truth_table` the function on them, `formula` its shortest text (`sum_of_products`). `proof` checks
the formula on all inputs: `head_tables`, `head_sets` and `enclosure` bound the logit of a one-
layer Transformer over cells of inputs with outward rounding (`relaxation`), `branching` cuts the
cells, `counterexample` searches on tables (`table_forward`), `all_inputs` gives the verdict.
`bounds`: `input_law` tests the stated distribution, `description` and `formula_routes` turn the
formula into bounds, `network_certificate` has all routes in one portfolio. `anatomy` describes the
formulas of failed runs. `decompiling.decompile` does all of it; `capax.decompile(model)` calls it.
"""

from capax.callable_packages import make_callable
from capax.decompile.decompiled import Decompiled as Decompiled
from capax.decompile.decompiling import Effort as Effort
from capax.decompile.decompiling import decompile as decompile

make_callable(__name__, "capax.decompile.decompiling:decompile")
