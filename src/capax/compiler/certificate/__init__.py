"""The certificate: worst case and margin on all inputs, norms, sample sizes, and float32."""
