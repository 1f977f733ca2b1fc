"""The paper, statement by statement: its forms and ours, small instances, errata.

`registry` lists every statement with its functions and tests (`rows`). `checking` runs every
statement on a small instance (`instances`), and every printed form that is known to fail
(`errata`). `comparison` computes the paper's number and ours for given norms. In `forms`,
`inequalities` evaluates both sides of the lemmas about distances, `printed_bounds` the capacity
bounds with the paper's constants. `head_shattering` is Proposition 4.4, `token_influence` Hahn's
limit, `symbol_network` Section B.4, and `sign_packing` gives the counterexamples of four errata.
"""
