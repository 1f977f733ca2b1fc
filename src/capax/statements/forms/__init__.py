"""The statements as functions: the printed forms, the corrected ones, and their ingredients."""
