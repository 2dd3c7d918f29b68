"""Pipelines: a network in stages, one on each rank, which work on different micro-batches at the same time."""
