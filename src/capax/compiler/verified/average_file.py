"""Files of heads that average: written, and verified from their weights alone."""

from pathlib import Path
from typing import Any

from capax.attention import ClsScalar, checkpoint
from capax.compiler.extensions.averages import (
    AverageCertificate,
    Averaged,
    certify_average,
    parse_average,
)
from capax.compiler.proof.tables import alphabet_of
from capax.compiler.verified.claims import Claim, at_least, at_most, equal, near, stated
from capax.compiler.verified.verification import ARITHMETIC, Verification
from capax.compiler.weights_file import AVERAGE, load_compiled
from capax.errors import InputError, require


def save_average(path: Path | str, made: Averaged) -> Path:
    """Write weights (float64) and certificate to `path`, whole or not at all."""
    metadata = {"kind": AVERAGE, "certificate": made.certificate.to_json()}
    return checkpoint.save(path, made.model, metadata)


def verify_average(path: Path | str) -> Verification:
    """The formula names the members; all numbers are recomputed from the weights."""
    file = load_compiled(path, AVERAGE)
    try:
        model, text = file.model, file.claims.get("function")
        if not isinstance(model, ClsScalar):
            raise InputError("model: wanted a ClsScalar")
        require(isinstance(text, str), "function", "a formula such as mean(all)", text)
        members = parse_average(str(text), model.T, alphabet_of(model))
        found = certify_average(model, members, str(text), 0.0, 0.0)
    except InputError as error:
        raise InputError(f"{path}: certificate: {error}") from None
    intact = "as saved" if file.intact else "changed"
    fingerprint = equal("fingerprint of the file", "as saved", intact)
    claims = (*_claims(file.claims, found), fingerprint)
    return Verification(
        ok=all(claim.ok for claim in claims),
        path=str(path),
        function=str(text),
        T=found.T,
        alphabet=found.alphabet,
        method="the sum over tokens, or over the kinds of tokens, of their largest errors",
        arithmetic=ARITHMETIC,
        worst_case_error=found.worst_case_error,
        margin=None,
        attacked_error=found.attained_error,
        float32=None,
        norms={name.removesuffix("_F"): {"frobenius": x} for name, x in found.norms.items()},
        claims=claims,
    )


def _claims(claims: dict[str, Any], found: AverageCertificate) -> list[Claim]:
    recomputed = found.to_json()
    same = ("function", "T", "alphabet", "members", "statements")
    error = (found.attained_error, found.worst_case_error)
    norms = claims.get("norms")
    given: dict[str, Any] = norms if isinstance(norms, dict) else {}
    done = [
        *(equal(name, claims.get(name), recomputed[name]) for name in same),
        at_most("worst_case_error", claims.get("worst_case_error"), *error),
        at_least("attained_error", claims.get("attained_error"), *error),
        at_most("eps", claims.get("eps"), *error),
        equal("norms", sorted(map(str, given)), sorted(found.norms)),
        *(near(f"norms.{name}", given.get(name), x, x) for name, x in found.norms.items()),
    ]
    known = {claim.name for claim in done}
    return [*done, *(stated(name, claims[name]) for name in claims if name not in known)]
