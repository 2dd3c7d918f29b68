"""Ways to compute a softmax; the reference itself passes over its input for the maximum, and again for the sum."""
