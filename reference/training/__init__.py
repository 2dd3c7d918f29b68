"""References of layer 2: update rules written from their papers."""
