"""Can attention represent my rule? Weights for a formula, proved right on all 2^T inputs.

Change the formula; `capax verify rule.safetensors` checks the file without this program.
"""

import capax
from capax.compiler import save_compiled

compiled = capax.compile("maj(x1, x5, x9)", T=200)
certificate = compiled.certificate
print(f"{certificate.function}: {certificate.family}, {certificate.mlp_units} MLP units")
print(f"wrong decisions: {certificate.wrong_decisions} of 2^{certificate.T}")
print(f"||W_QK||_F = {certificate.norms['W_QK']['frobenius']:.1f}")

save_compiled("rule.safetensors", compiled)
verdict = capax.verify("rule.safetensors")
print(f"verified from the weights alone: {verdict.ok} ({len(verdict.claims)} claims)")
