"""The task of a panel: drawn by a formula, or the examples of a file (`data = "mine.npz"`)."""

from capax.data.file_task import FileTask
from capax.data.task import TaskSpec
from capax.sweep.experiments.spec import Panel
from capax.sweep.searching.search import AdaptiveSearch


def task_of(panel: Panel, T: int, m: int = 1, index: int = 0) -> TaskSpec | FileTask:
    """The task at (T, m) of trial number `index`. Raises `InputError` for bad fields."""
    seed = panel.task_seed(index)
    if "data" in panel.task:
        return FileTask(**panel.task, T=T, m=m, seed=seed)
    return TaskSpec(**panel.task, T=T, m=m, seed=seed)


def largest_m(panel: Panel, T: int) -> int:
    """The largest m of a panel; a range ends at the number of examples of a file."""
    largest = panel.search.at_length(T).largest_m
    if "data" in panel.task and isinstance(panel.search, AdaptiveSearch):
        task = task_of(panel, T)
        assert isinstance(task, FileTask)
        return min(largest, len(task.split.y))
    return largest
