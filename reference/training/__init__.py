"""References of layer 2: update rules and a training loop written from the papers. Empty for now."""
