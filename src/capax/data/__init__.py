"""From a target to data: keyed samplers and tasks that are the same on every machine.

`TaskSpec` says what a learning problem is; `draw_task` gives its support, training set and
validation set. Every random choice comes from a hash of the spec, so that order, batch and machine
do not matter. `distributions` draws the bits, `export` writes them for people who train elsewhere,
and `specs` is the base of every specification in the package.
"""

from capax.data.distributions import bernoulli_bits as bernoulli_bits
from capax.data.distributions import bernoulli_rows as bernoulli_rows
from capax.data.spec_base import Spec as Spec
from capax.data.task import Task as Task
from capax.data.task import TaskSpec as TaskSpec
from capax.data.task import Training as Training
from capax.data.task import draw_support as draw_support
from capax.data.task import draw_task as draw_task
from capax.data.task import draw_training as draw_training
from capax.data.task import labels as labels
from capax.data.task import validation_inputs as validation_inputs
from capax.data.task_files import write_task as write_task
