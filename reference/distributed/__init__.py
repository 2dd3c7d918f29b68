"""References of layer 3: communication schemes spelled out rank by rank. Empty for now."""
