"""Audit: what the attention heads of a real checkpoint can hold, and what they do.

`reading` opens files, `layouts` knows the names of weights, `heads` measures them, `text` runs the
model. The package can be called: `capax.audit(path)` is `capax.audit.auditing.audit(path)`.
"""

from capax.callable_packages import make_callable

make_callable(__name__, "capax.audit.auditing:audit")
