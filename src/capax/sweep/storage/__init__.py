"""One SQLite file per sweep: opened, checked, locked, written, salvaged."""
