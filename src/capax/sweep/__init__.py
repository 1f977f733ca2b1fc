"""Sweeps: many trials, planned by what they teach, kept in one file, resumable after any crash.

An experiment file says what to try (`spec`); a search says which m to try next (`search`); a
learner trains (`families`); the store keeps every run (`storage`). None depends on the others'
insides; `running` brings them together.
"""

from capax.callable_packages import make_callable
from capax.sweep.counts import Counts as Counts
from capax.sweep.curve import CurveGrid as CurveGrid
from capax.sweep.curve import Estimate as Estimate
from capax.sweep.curve import estimate as estimate
from capax.sweep.search import AdaptiveSearch as AdaptiveSearch
from capax.sweep.search import GridSearch as GridSearch
from capax.sweep.search import Progress as Progress
from capax.sweep.trial import Learner as Learner
from capax.sweep.trial import Outcome as Outcome
from capax.sweep.trial import Run as Run
from capax.sweep.trial import Trial as Trial

make_callable(__name__, "capax.sweep.running.sweeping:sweep")
