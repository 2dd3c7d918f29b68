"""From a network to a plan that an adapter builds native code from.

`lower` upgrades the network, fixes what is known (shapes, axes, folded constants, branches that are always taken), asks the
adapter for native code node by node, expands composite operators through the function bodies that ONNX defines, and marks
the rest as computed by the reference.
"""

from deep_bench.adapters.lowering.infer import output_types
from deep_bench.adapters.lowering.lower import lower
from deep_bench.adapters.lowering.plan import Lowered, NotNative, Plan, Site, Slot, Step

__all__ = ["Lowered", "NotNative", "Plan", "Site", "Slot", "Step", "lower", "output_types"]
