"""Steps that training takes to solve a task: t*(T, s), its quantiles and its laws."""

from capax.analysis.times.solve_times import Quantile as Quantile
from capax.analysis.times.solve_times import RunTimes as RunTimes
from capax.analysis.times.solve_times import SolveTimes as SolveTimes
from capax.analysis.times.solve_times import run_times as run_times
from capax.analysis.times.solve_times import solve_times as solve_times
from capax.analysis.times.time_laws import TimeLaw as TimeLaw
from capax.analysis.times.time_laws import frontier as frontier
from capax.analysis.times.time_laws import time_laws as time_laws
