"""What messages cost on a machine: the LogGP model, its fit, the file that keeps it, and formulas that predict from it."""
