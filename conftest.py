"""What pytest cannot import here, and how it names the cases of a test."""

from importlib.util import find_spec
from typing import Any

collect_ignore_glob = [
    *([] if find_spec("jax") else ["deep_bench/adapters/jax/*"]),
    *([] if find_spec("mlperf_loadgen") else ["docs/mlperf-inference.md"]),
]


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    """Bytes are named by their argument: contents may differ from worker to worker, as a compressed file has its time."""
    return argname if isinstance(val, bytes) else None
