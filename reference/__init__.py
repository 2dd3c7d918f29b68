"""Slow references that a person can read: the definitions that everything else is checked against.

Import this package as ``deep_bench.reference`` only.
"""

if __name__ != "deep_bench.reference":
    # Under a second name there would be two copies of every module, and two of every class.
    raise ImportError(f"imported as {__name__!r}; this package is importable as 'deep_bench.reference' only")
