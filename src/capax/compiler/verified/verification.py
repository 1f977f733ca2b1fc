"""The verdict on a file of weights: every claim of its certificate beside the recomputed number."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from capax.compiler.certificate.float32 import Float32Margin
from capax.compiler.verified.claims import Claim

NormTable = dict[str, dict[str, float]]
ARITHMETIC = "real arithmetic on the stored float64 weights"


@dataclass(frozen=True)
class Verification:
    """The verdict: `ok` when every claim that is not merely stated is proved.

    `worst_case_error`, `margin` = the numbers that are proved (an upper and a lower end);
    `attacked_error` = the error on an actual input, at least; `float32` = the margin that remains
    when the forward pass runs in float32 (None for the paper's networks and for averages).

    Examples:
        >>> import capax, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "and.safetensors"
        >>> _ = capax.compiler.save_compiled(path, capax.compile("x0 & x2", T=5))
        >>> capax.verify(path).T
        5
    """

    ok: bool
    path: str
    function: str
    T: int
    alphabet: int
    method: str
    arithmetic: str
    worst_case_error: float
    margin: float | None
    attacked_error: float
    float32: Float32Margin | None
    norms: NormTable
    claims: tuple[Claim, ...]

    @property
    def failed(self) -> tuple[Claim, ...]:
        """The claims that are refuted or not proved."""
        return tuple(claim for claim in self.claims if not claim.ok)

    def to_json(self) -> dict[str, Any]:
        """Plain data with the failed claims named under `failed`."""
        content = {**asdict(self), "failed": [claim.name for claim in self.failed]}
        return finite(content)


def finite(content: Any) -> Any:
    """The same with infinities and NaN as text, which JSON has no numbers for."""
    if isinstance(content, dict):
        return {str(key): finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    if isinstance(content, float) and not np.isfinite(content):
        return str(content)
    return content
