"""Mutants of the reference: held-out faults."""
