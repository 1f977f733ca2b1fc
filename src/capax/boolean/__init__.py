"""The targets: sparse Boolean functions, their properties, and how much data pins one down.

A target looks at s of T bits. `functions` holds it as a support and a truth table, `families` and
`parser` build it, `fourier` and `bias` say what it is like, `version_space` lists the placements
that a sample has not refuted, and `limits` says how many examples any learner needs.
"""

from capax.boolean.bias import balancing_probabilities as balancing_probabilities
from capax.boolean.bias import balancing_probability as balancing_probability
from capax.boolean.bias import bias as bias
from capax.boolean.families import conjunction as conjunction
from capax.boolean.families import constant as constant
from capax.boolean.families import disjunction as disjunction
from capax.boolean.families import from_table as from_table
from capax.boolean.families import literal as literal
from capax.boolean.families import majority as majority
from capax.boolean.families import monotone_symmetric as monotone_symmetric
from capax.boolean.families import parity as parity
from capax.boolean.families import symmetric as symmetric
from capax.boolean.families import threshold as threshold
from capax.boolean.functions import MAX_SPARSITY as MAX_SPARSITY
from capax.boolean.functions import SparseFunction as SparseFunction
from capax.boolean.parser import parse as parse
from capax.boolean.random_functions import random_function as random_function
from capax.boolean.random_functions import random_support as random_support
from capax.boolean.version_space import VersionSpace as VersionSpace
from capax.boolean.version_space import is_unique as is_unique
from capax.boolean.version_space import survivors as survivors
