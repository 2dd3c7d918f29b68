"""Ways to add up, for the reductions that are sums; the reference itself leaves it to NumPy."""
