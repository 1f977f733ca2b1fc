"""What could any learner do? Draw data for a rule and count the rules that explain it.

As long as several placements of the rule explain the sample, no learner can know which is true.
"""

import capax
from capax.boolean import survivors

RULE, T = "and3", 50

for m in (10, 20, 30, 40):
    spec = capax.TaskSpec(function=RULE, T=T, m=m, reject_ambiguous=False)
    task = capax.draw_task(spec)
    left = survivors(capax.parse(RULE), task.X_train, task.y_train)
    print(f"m = {m}: placements that explain the sample: {left.count}; true: {task.support}")
