"""Any sparse function becomes a bounded-norm Transformer head, certified over all 2^T inputs.

`compile` reads a formula (`capax.boolean`) and chooses the cheapest construction that fits
(`construction`): one head that selects the relevant positions, followed by a scalar read-out or a
small ReLU network (`parts`). The temperature is the highest that meets the wanted error.

`proof` bounds the network on all inputs. The weights become tables of numbers with a proven error;
the range of the output over all inputs is a linear-fractional program, and an adversary searches
for a counterexample. `certificate` states the worst case, the margin, every norm, the sample sizes
they imply, and the margin that remains in float32. The promise is about real arithmetic on the
stored float64 weights. `verified` recomputes every claim of a file from its weights alone.

`paper` has the paper's own networks (`capax compile --method paper`), `extensions` heads that
average and functions of numbers. `weights_file` stores networks; `transformer_lens`,
`trained_lens`, `torch_export` and `trained_torch` write them for other libraries.
"""

from capax.compiler.certificate.certificate import Certificate as Certificate
from capax.compiler.certificate.certificate import certify as certify
from capax.compiler.compiling import Compiled as Compiled
from capax.compiler.compiling import compile as compile
from capax.compiler.construction.choice import choose as choose
from capax.compiler.construction.families import FAMILIES as FAMILIES
from capax.compiler.construction.families import Construction as Construction
from capax.compiler.parts.selection import ENCODINGS as ENCODINGS
from capax.compiler.parts.selection import Selection as Selection
from capax.compiler.verified.claims import Claim as Claim
from capax.compiler.verified.verification import Verification as Verification
from capax.compiler.verified.verifying import verify as verify
from capax.compiler.weights_file import load_compiled as load_compiled
from capax.compiler.weights_file import save_compiled as save_compiled
