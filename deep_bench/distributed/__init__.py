"""Layer 3: communication schemes over MPI and friends. Empty for now."""
