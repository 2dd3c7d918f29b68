"""Ways to compute attention; the reference itself holds all scores at once."""
