"""How much can a class of functions hold? Covers, complexities, bounds.

Covers of finite sets (`covering_sets`, `packing_sets`, `cover_curve`) and of functions on samples
(`covering_classes`) are computed; covers of linear classes are bounded (`linear_classes`) and built
(`constructive_covers`). `chaining` turns a cover into Rademacher complexity and `generalization`
turns that into a bound on the error (Lemma 2.2).

A network is a list of `pieces`, each a linear class seen through what follows it; the error is
split over them optimally (`allocation`). `norms` measures, `head_bounds` and `multi_head_bounds`
state Corollary 4.5, `network_bounds` Theorem 4.7, `model_bounds.measure` applies them to a module
by its type, and `certificate.certify` turns a trained model and its data into "with probability
1 - delta, error <= ...". Those two need JAX: import them from their files.
"""

from capax.capacity.bound import Assumption as Assumption
from capax.capacity.bound import Bound as Bound
from capax.capacity.bound import Term as Term
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
from capax.capacity.function_class import FunctionClass as FunctionClass
from capax.capacity.generalization import agnostic_margin_bound as agnostic_margin_bound
from capax.capacity.generalization import lemma_2_2 as lemma_2_2
from capax.capacity.generalization import ramp_bound as ramp_bound
from capax.capacity.generalization import separated_bound as separated_bound
from capax.capacity.generalization import zero_one_bound as zero_one_bound
from capax.capacity.head_bounds import attention_head as attention_head
from capax.capacity.head_bounds import linear_head as linear_head
from capax.capacity.head_bounds import scalar_head as scalar_head
from capax.capacity.head_lipschitz import head_distance as head_distance
from capax.capacity.head_lipschitz import theorem_4_2 as theorem_4_2
from capax.capacity.layer_pieces import Inputs as Inputs
from capax.capacity.linear_classes import log_cover_matrix_21 as log_cover_matrix_21
from capax.capacity.linear_classes import log_cover_vector as log_cover_vector
from capax.capacity.linear_classes import zhang_bound as zhang_bound
from capax.capacity.margin_bounds import margin_bound as margin_bound
from capax.capacity.margin_bounds import realizable_bound as realizable_bound
from capax.capacity.metrics import space_from_distances as space_from_distances
from capax.capacity.metrics import space_from_points as space_from_points
from capax.capacity.multi_head_bounds import mlp_head as mlp_head
from capax.capacity.multi_head_bounds import multi_head as multi_head
from capax.capacity.network_bounds import paper_network as paper_network
from capax.capacity.network_bounds import residual_network as residual_network
from capax.capacity.norms import MatrixNorms as MatrixNorms
from capax.capacity.norms import matrix_norms as matrix_norms
from capax.capacity.norms import norms_QK as norms_QK
from capax.capacity.norms import norms_VO as norms_VO
from capax.capacity.occam import occam_bound as occam_bound
from capax.capacity.packing_sets import greedy_packing as greedy_packing
from capax.capacity.packing_sets import packing_number as packing_number
from capax.capacity.portfolio import Certificate as Certificate
from capax.capacity.portfolio import bound_from_norms as bound_from_norms
from capax.capacity.portfolio import certify_margins as certify_margins
from capax.capacity.rademacher import rademacher_exact as rademacher_exact
from capax.capacity.rademacher import rademacher_monte_carlo as rademacher_monte_carlo
from capax.capacity.sample_points import Sample as Sample
from capax.capacity.vc import growth_function as growth_function
from capax.capacity.vc import vc_dimension as vc_dimension
