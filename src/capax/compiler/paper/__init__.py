"""The paper's own networks (Appendix B): heads, bump networks, their proofs and files."""
