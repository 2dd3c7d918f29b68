"""Ways to find mean and variance; the reference itself passes over its input for the mean, and again for the variance."""
