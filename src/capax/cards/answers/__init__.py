"""From a store to a card: rows, laws, curves; mixed parity; the card that travels with Capax."""
