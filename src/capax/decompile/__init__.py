"""From trained weights back to a formula, and from sixty examples to a certificate.

`reading`: `oracle` asks any model; `influence` finds the bits that matter by group testing,
`truth_table` the function on them, `formula` its shortest text (`sum_of_products`). `proof`, how
true it is over all inputs: `head_tables`, `head_sets` and `enclosure` bound the logit of a one-
layer Transformer over cells of inputs with outward rounding (`relaxation`), `branching` cuts the
cells, `counterexample` searches on tables (`table_forward`), `all_inputs` gives the verdict.
`bounds`: `description`, `certificate` and `training_data` turn the formula into a bound on the
network's error, `other_routes` stand beside it. `anatomy` says what failed runs had learnt
instead. `decompiling.decompile` does all of it. The package can be called: `capax.decompile(model)`
is `decompiling.decompile(model)`.
"""

from capax.callable_packages import make_callable
from capax.decompile.bounds.training_data import TrainingData as TrainingData
from capax.decompile.bounds.training_data import from_task as from_task
from capax.decompile.bounds.training_data import read_training_data as read_training_data
from capax.decompile.decompiled import Decompiled as Decompiled
from capax.decompile.decompiling import decompile as decompile

make_callable(__name__, "capax.decompile.decompiling:decompile")
