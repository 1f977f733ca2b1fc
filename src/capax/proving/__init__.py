"""Statements about networks on all inputs that others can check.

`compiled_proof` writes the proof of a compiled network, `trained_proof` that of a trained one.
`run_checker` runs the checker in a separate process, and `capax_check` is the checker: one file
that needs only Python. `vnnlib` writes instances for other verifiers: the network as ONNX
(`onnx_network`), properties over boxes (`box_range`), and the known answers.
"""
