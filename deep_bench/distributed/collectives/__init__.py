"""Microbenchmarks of messages and collective operations: each checked, timed on every rank, and put beside a prediction."""
