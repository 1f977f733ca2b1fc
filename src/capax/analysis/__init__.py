"""Analysis of a finished sweep: thresholds, laws compared, tables, attention.

This package trains no model; all numbers are computed from a store and trace to its runs.
"""

from capax.analysis.floor import Floor as Floor
from capax.analysis.floor import Protocol as Protocol
from capax.analysis.floor import fewest_examples as fewest_examples
from capax.analysis.floor import floor as floor
from capax.analysis.laws import Fit as Fit
from capax.analysis.laws import Parameter as Parameter
from capax.analysis.positions import Position as Position
from capax.analysis.positions import positions as positions
from capax.analysis.scaling import Scaling as Scaling
from capax.analysis.scaling import fit_scaling as fit_scaling
from capax.analysis.summary import Answer as Answer
from capax.analysis.summary import answer as answer
from capax.analysis.summary import summarise as summarise
from capax.analysis.tables.frames import curves_frame as curves_frame
from capax.analysis.tables.frames import export as export
from capax.analysis.tables.frames import runs_frame as runs_frame
from capax.analysis.tables.frames import trials_frame as trials_frame
from capax.analysis.threshold import Threshold as Threshold
from capax.analysis.threshold import threshold_of as threshold_of
from capax.analysis.threshold import thresholds as thresholds
