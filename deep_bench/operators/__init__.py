"""Layer 0: one kernel. Empty for now; single operators are run as networks of one node."""
