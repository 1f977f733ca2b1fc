"""Statements about networks on all inputs that a stranger can check.

`compiled_proof` writes the proof of a compiled network, `run_checker` runs the checker on it in a
process of its own, and `capax_check` is the checker: one file that needs Python alone. `vnnlib`
asks other people's verifiers: the network as ONNX (`onnx_network`), properties over boxes
(`box_range`), and the known answers.
"""
