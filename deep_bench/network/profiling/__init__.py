"""Where the time and the memory of a network go."""
