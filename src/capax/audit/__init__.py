"""Audit: what the attention heads of a real checkpoint can hold, and what they do.

`reading` opens files, `layouts` knows the names of weights, `heads` measures them, `text` runs the
model. The folder can be called: `capax.audit(path)` is `capax.audit.auditing.audit(path)`.
"""

from capax.doors import open_door

open_door(__name__, "capax.audit.auditing:audit")
