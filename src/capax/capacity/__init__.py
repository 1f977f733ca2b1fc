"""How much can a class of functions hold? Covers, complexities, bounds.

Covers of finite sets (`covering_sets`, `packing_sets`, `cover_curve`) and of functions on samples
(`covering_classes`) are computed; covers of linear classes are bounded (`linear_classes`) and built
(`constructive_covers`). `chaining` turns a cover into Rademacher complexity and `generalization`
turns that into a bound on the error (Lemma 2.2).
"""

from capax.capacity.chaining import dudley as dudley
from capax.capacity.chaining import massart as massart
from capax.capacity.chaining import rademacher_from_cover as rademacher_from_cover
from capax.capacity.chaining import rademacher_from_log_cover as rademacher_from_log_cover
from capax.capacity.constructive_covers import matrix_cover as matrix_cover
from capax.capacity.constructive_covers import vector_cover as vector_cover
from capax.capacity.cover_curve import covering_curve as covering_curve
from capax.capacity.covering_classes import cover_of_parameters as cover_of_parameters
from capax.capacity.covering_classes import cover_of_sampled_class as cover_of_sampled_class
from capax.capacity.covering_classes import cover_on_sample as cover_on_sample
from capax.capacity.covering_classes import cover_worst_case as cover_worst_case
from capax.capacity.covering_sets import covering_number as covering_number
from capax.capacity.covering_sets import greedy_cover as greedy_cover
from capax.capacity.fat_shattering import fat_shattering_dimension as fat_shattering_dimension
from capax.capacity.generalization import agnostic_margin_bound as agnostic_margin_bound
from capax.capacity.generalization import lemma_2_2 as lemma_2_2
from capax.capacity.generalization import ramp_bound as ramp_bound
from capax.capacity.generalization import separated_bound as separated_bound
from capax.capacity.generalization import zero_one_bound as zero_one_bound
from capax.capacity.linear_classes import log_cover_matrix_21 as log_cover_matrix_21
from capax.capacity.linear_classes import log_cover_vector as log_cover_vector
from capax.capacity.linear_classes import zhang_bound as zhang_bound
from capax.capacity.metrics import space_from_distances as space_from_distances
from capax.capacity.metrics import space_from_points as space_from_points
from capax.capacity.packing_sets import greedy_packing as greedy_packing
from capax.capacity.packing_sets import packing_number as packing_number
from capax.capacity.rademacher import rademacher_exact as rademacher_exact
from capax.capacity.rademacher import rademacher_monte_carlo as rademacher_monte_carlo
from capax.capacity.vc import growth_function as growth_function
from capax.capacity.vc import vc_dimension as vc_dimension
