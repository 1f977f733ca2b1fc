"""Train thousands of small Transformers at once, at the speed of the hardware.

`TrialSpec` says what is to be learned and how; `train` takes trials and yields their results as
they finish. One program is compiled per shape (`program`), on the exact collapse where it applies
and on the naive model elsewhere (`paths`); runs pass through the slots of workers (`slots`,
`worker`, `engine`); `hardware` and `memory` decide how many fit; `speed` measures. What a run
computes depends on its spec alone.
"""

from capax.training.crew import Tally as Tally
from capax.training.engine import train as train
from capax.training.hardware import Hardware as Hardware
from capax.training.run_results import RunResult as RunResult
from capax.training.run_results import TrialResult as TrialResult
from capax.training.shape import compile_ahead as compile_ahead
from capax.training.trial_specs import OptimiserSpec as OptimiserSpec
from capax.training.trial_specs import RunSpec as RunSpec
from capax.training.trial_specs import TrialSpec as TrialSpec
