"""Train thousands of small Transformers at once, at the speed of the hardware.

`TrialSpec` has the task, the model and the protocol; `train` takes trials and yields their results
as they finish. `specs` holds trials, runs and the hardware; `steps` the mathematics of a step, on
the exact collapse of the Transformer if it applies and else on the naive model. One program is
compiled per shape (`programs`), runs pass through the slots of workers (`slots`, `engine`), and
`speed` measures. The result of a run depends on its spec alone.
"""

from capax.training.engine import train as train
from capax.training.programs.shape import compile_ahead as compile_ahead
from capax.training.slots.crew import Tally as Tally
from capax.training.specs.hardware import Hardware as Hardware
from capax.training.specs.run_results import RunResult as RunResult
from capax.training.specs.run_results import TrialResult as TrialResult
from capax.training.specs.trial_specs import OptimiserSpec as OptimiserSpec
from capax.training.specs.trial_specs import RunSpec as RunSpec
from capax.training.specs.trial_specs import TrialSpec as TrialSpec
