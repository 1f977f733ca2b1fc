"""The capacity of a class of functions: covers, complexities, bounds.

The packages follow the paper, and each uses only earlier ones: `covers` (finite sets, function
classes on samples), `complexity` (VC, fat-shattering, Rademacher, chaining, Lemma 2.2), `linear`
(Lemma 4.6), `network` (Corollary 4.5, Theorem 4.7), `weights` (norms of modules and of files),
`margins` (margins of a model, and bounds from covers), `certificates` ("with probability 1 - delta,
error <= ...") and `routes` (all bounds of a model or a file). Shared files: `bound` (a bound as an
object), `magnitude` (numbers too large for a float) and `arguments`.

`weights.model_bounds` and `routes.certifying` need JAX: import them from their files.
"""

from capax.capacity.bound import Assumption as Assumption
from capax.capacity.bound import Bound as Bound
from capax.capacity.bound import Term as Term
from capax.capacity.certificates.error_certificate import ErrorCertificate as ErrorCertificate
from capax.capacity.certificates.evidence import Evidence as Evidence
from capax.capacity.certificates.evidence import read_evidence as read_evidence
from capax.capacity.certificates.evidence import task_evidence as task_evidence
from capax.capacity.certificates.occam import occam_bound as occam_bound
from capax.capacity.certificates.portfolio import bound_from_norms as bound_from_norms
from capax.capacity.complexity.chaining import dudley as dudley
from capax.capacity.complexity.chaining import massart as massart
from capax.capacity.complexity.chaining import rademacher_from_cover as rademacher_from_cover
from capax.capacity.complexity.chaining import (
    rademacher_from_log_cover as rademacher_from_log_cover,
)
from capax.capacity.complexity.fat_shattering import (
    fat_shattering_dimension as fat_shattering_dimension,
)
from capax.capacity.complexity.generalization import agnostic_margin_bound as agnostic_margin_bound
from capax.capacity.complexity.generalization import lemma_2_2 as lemma_2_2
from capax.capacity.complexity.generalization import ramp_bound as ramp_bound
from capax.capacity.complexity.generalization import separated_bound as separated_bound
from capax.capacity.complexity.generalization import zero_one_bound as zero_one_bound
from capax.capacity.complexity.rademacher import rademacher_exact as rademacher_exact
from capax.capacity.complexity.rademacher import rademacher_monte_carlo as rademacher_monte_carlo
from capax.capacity.complexity.vc import growth_function as growth_function
from capax.capacity.complexity.vc import vc_dimension as vc_dimension
from capax.capacity.covers.covering_classes import cover_of_parameters as cover_of_parameters
from capax.capacity.covers.covering_classes import cover_of_sampled_class as cover_of_sampled_class
from capax.capacity.covers.covering_classes import cover_on_sample as cover_on_sample
from capax.capacity.covers.covering_classes import cover_worst_case as cover_worst_case
from capax.capacity.covers.covering_curve import covering_curve as covering_curve
from capax.capacity.covers.covering_sets import covering_number as covering_number
from capax.capacity.covers.covering_sets import greedy_cover as greedy_cover
from capax.capacity.covers.metrics import space_from_distances as space_from_distances
from capax.capacity.covers.metrics import space_from_points as space_from_points
from capax.capacity.covers.packing_sets import greedy_packing as greedy_packing
from capax.capacity.covers.packing_sets import packing_number as packing_number
from capax.capacity.linear.constructive_covers import matrix_cover as matrix_cover
from capax.capacity.linear.constructive_covers import vector_cover as vector_cover
from capax.capacity.linear.linear_classes import log_cover_matrix_21 as log_cover_matrix_21
from capax.capacity.linear.linear_classes import log_cover_vector as log_cover_vector
from capax.capacity.linear.linear_classes import zhang_bound as zhang_bound
from capax.capacity.linear.norms import MatrixNorms as MatrixNorms
from capax.capacity.linear.norms import matrix_norms as matrix_norms
from capax.capacity.linear.norms import norms_QK as norms_QK
from capax.capacity.linear.norms import norms_VO as norms_VO
from capax.capacity.margins.margin_bounds import margin_bound as margin_bound
from capax.capacity.margins.margin_bounds import realizable_bound as realizable_bound
from capax.capacity.network.function_class import FunctionClass as FunctionClass
from capax.capacity.network.head_bounds import attention_head as attention_head
from capax.capacity.network.head_bounds import linear_head as linear_head
from capax.capacity.network.head_bounds import scalar_head as scalar_head
from capax.capacity.network.head_lipschitz import head_distance as head_distance
from capax.capacity.network.head_lipschitz import theorem_4_2 as theorem_4_2
from capax.capacity.network.layer_pieces import Inputs as Inputs
from capax.capacity.network.multi_head_bounds import mlp_head as mlp_head
from capax.capacity.network.multi_head_bounds import multi_head as multi_head
from capax.capacity.network.network_bounds import paper_network as paper_network
from capax.capacity.network.network_bounds import residual_network as residual_network
from capax.capacity.network.sample_points import Sample as Sample
