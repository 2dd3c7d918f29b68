"""What pytest cannot import here: adapters whose framework is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("jax") else ["deep_bench/adapters/jax/*"]
