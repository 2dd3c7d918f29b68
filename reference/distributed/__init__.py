"""References of layer 3: communication schemes spelled out rank by rank, one file each.

They share no code with the fast ones of `deep_bench.distributed.schemes`; `scheme` says what both agree on.
"""
