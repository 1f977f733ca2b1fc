"""The views: what each asks, and the functions of the commands that answer."""
