"""Several ranks train a network together."""
