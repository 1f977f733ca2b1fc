"""The targets: sparse Boolean functions, their properties, and how much data identifies one.

A target looks at s of T bits. `functions` holds it as a support and a truth table;
`named_functions` and `parser` build it. `traits` gives its properties (`fourier`, `bias`,
`symmetries`), `consistent` which placements a sample has not refuted (`survivors`; `conjunctions`
for AND and OR, `placement_search` for the rest), `best_possible` how many examples are needed:
`disagreement` (wrong survivors), `limits` (converse bounds), `one_rule_left` (when one placement is
left) and `best_learner` (the floor under every learning curve).
"""

from capax.boolean.best_possible.best_learner import BestLearner as BestLearner
from capax.boolean.best_possible.disagreement import (
    expected_wrong_survivors as expected_wrong_survivors,
)
from capax.boolean.best_possible.disagreement import log_num_placements as log_num_placements
from capax.boolean.best_possible.disagreement import union_sample_size as union_sample_size
from capax.boolean.best_possible.limits import counting as counting
from capax.boolean.best_possible.limits import fano as fano
from capax.boolean.best_possible.one_rule_left import Sandwich as Sandwich
from capax.boolean.best_possible.one_rule_left import (
    expected_samples_until_one_left as expected_samples_until_one_left,
)
from capax.boolean.best_possible.one_rule_left import no_swap_probability as no_swap_probability
from capax.boolean.best_possible.one_rule_left import probability_one_left as probability_one_left
from capax.boolean.consistent.survivors import VersionSpace as VersionSpace
from capax.boolean.consistent.survivors import is_unique as is_unique
from capax.boolean.consistent.survivors import survivors as survivors
from capax.boolean.functions import MAX_SPARSITY as MAX_SPARSITY
from capax.boolean.functions import SparseFunction as SparseFunction
from capax.boolean.named_functions import conjunction as conjunction
from capax.boolean.named_functions import constant as constant
from capax.boolean.named_functions import disjunction as disjunction
from capax.boolean.named_functions import from_table as from_table
from capax.boolean.named_functions import literal as literal
from capax.boolean.named_functions import majority as majority
from capax.boolean.named_functions import monotone_symmetric as monotone_symmetric
from capax.boolean.named_functions import parity as parity
from capax.boolean.named_functions import symmetric as symmetric
from capax.boolean.named_functions import threshold as threshold
from capax.boolean.parser import parse as parse
from capax.boolean.random_functions import random_function as random_function
from capax.boolean.random_functions import random_support as random_support
from capax.boolean.traits.bias import balancing_probabilities as balancing_probabilities
from capax.boolean.traits.bias import balancing_probability as balancing_probability
from capax.boolean.traits.bias import bias as bias
from capax.boolean.traits.fourier import Properties as Properties
from capax.boolean.traits.fourier import fourier_coefficients as fourier_coefficients
from capax.boolean.traits.fourier import influences as influences
from capax.boolean.traits.fourier import properties as properties
