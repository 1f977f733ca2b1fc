"""What a network does on all 2^T inputs: tables, ranges, an attacker, the certificate."""
