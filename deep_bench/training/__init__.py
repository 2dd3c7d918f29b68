"""Layer 2: datasets, samplers, optimizers and the training loop. Empty for now."""
