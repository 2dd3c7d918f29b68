"""Nodes that the reference computes: NumPy between two conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.torch.arrays import to_native, to_numpy
from deep_bench.adapters.torch.derivatives import tied


def fallback(
    site: Site,
    function: Callable[..., Any],
    target: torch.device,
    convert: Callable[[np.ndarray], np.ndarray],
) -> Callable[..., Any]:
    """Native code that calls a function of NumPy arrays.

    Args:
        site: The node.
        function: The reference's function, with its attributes fixed.
        target: Where the results go.
        convert: Applied to each result (a change of precision).

    Returns:
        A function of tensors. Autograd cannot see through it: where derivatives are asked for, it says so.
    """
    single = len(site.outputs) == 1

    @torch.compiler.disable
    def reference(*inputs: Any) -> Any:
        with np.errstate(all="ignore"):
            result = function(*(to_numpy(x) for x in inputs))
        if single and isinstance(result, tuple):
            result = result[0]
        return tied(site, _REASON, to_native(result, target, convert), inputs)

    return reference


_REASON = "the reference computes it, through which torch takes no derivatives; the reference's own executor may have them"
