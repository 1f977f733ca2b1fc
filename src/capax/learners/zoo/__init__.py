"""The zoo: one file per architecture. `capax.learners.names` knows them by name."""
