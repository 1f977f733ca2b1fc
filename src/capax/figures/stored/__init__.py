"""From a store to the records that pictures are drawn from."""
