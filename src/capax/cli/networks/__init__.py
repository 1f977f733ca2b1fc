"""Commands about one network: trained, compiled, verified, decompiled, audited."""
