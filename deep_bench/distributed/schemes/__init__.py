"""Distributed optimizers: what ranks send each other in a step; `db.distributed_optimizers` has them by name."""
