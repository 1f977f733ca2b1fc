"""Sweeps: many trials, chosen by their information, kept in one file, resumable after any crash.

An experiment file lists the trials (`experiments`); a search chooses the next m (`searching`); a
learner trains (`families`); the store keeps every run (`storage`); `running` connects the four.
"""

from capax.callable_packages import make_callable
from capax.sweep.searching.counts import Counts as Counts
from capax.sweep.searching.curve import CurveGrid as CurveGrid
from capax.sweep.searching.curve import Estimate as Estimate
from capax.sweep.searching.curve import estimate as estimate
from capax.sweep.searching.search import AdaptiveSearch as AdaptiveSearch
from capax.sweep.searching.search import GridSearch as GridSearch
from capax.sweep.searching.search import Progress as Progress
from capax.sweep.trial import Learner as Learner
from capax.sweep.trial import Outcome as Outcome
from capax.sweep.trial import Run as Run
from capax.sweep.trial import Trial as Trial

make_callable(__name__, "capax.sweep.running.sweeping:sweep")
