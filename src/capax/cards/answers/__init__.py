"""From a store to a card: rows, laws, curves; mixed parity; the reference card of the package."""
