"""Any sparse function becomes a bounded-norm Transformer head, certified over all 2^T inputs.

`compile` reads a formula (`boolean`), finds which constructions fit (`literals`, `families`), takes
the cheapest (`choice`): one head that selects the relevant positions (`selection`), followed by a
scalar read-out (`threshold_head`) or a small ReLU network (`symmetric`, `general`). The paper's own
networks (`paper_method`) are `paper_heads` and `bump_network`. `averages` are heads that average.
The temperature is the smallest that meets the wanted error (`temperature`, `heads`); codes shorter
than T are handled by a dual basis (`incoherent`). `assemble` fills in the matrices of a
`capax.attention` module;
`certificate` states the worst case, the margin, every norm (`norm_table`) and the sample size they
imply (`sample_size`). `verifying` recomputes all of it from the weights alone: the weights become
`tables`, numbers with a proven error (`rounding`), whose range over all inputs is a
linear-fractional program (`linear_fractional`, `dinkelbach`, `output_range`); an `adversary`
searches for a counter-example. The promise is about real arithmetic on the stored float64 weights;
`float32` gives the margin that remains in single precision. `weights_file` stores networks,
`transformer_lens` and `torch_export` write them for other libraries.
"""

from capax.compiler.compiling import Compiled as Compiled
from capax.compiler.compiling import compile as compile
from capax.compiler.construction.choice import choose as choose
from capax.compiler.construction.families import FAMILIES as FAMILIES
from capax.compiler.construction.families import Construction as Construction
from capax.compiler.construction.selection import ENCODINGS as ENCODINGS
from capax.compiler.construction.selection import Selection as Selection
from capax.compiler.proof.certificate import Certificate as Certificate
from capax.compiler.proof.certificate import certify as certify
from capax.compiler.proof.claims import Claim as Claim
from capax.compiler.verification import Verification as Verification
from capax.compiler.verifying import verify as verify
from capax.compiler.weights_file import load_compiled as load_compiled
from capax.compiler.weights_file import save_compiled as save_compiled
