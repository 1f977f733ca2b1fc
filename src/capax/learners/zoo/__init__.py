"""The zoo: one file per architecture. `capax.learners.names` lists their names."""
