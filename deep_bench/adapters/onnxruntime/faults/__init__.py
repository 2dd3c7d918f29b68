"""The faults of ONNX Runtime 1.32 on the CPU that are known here."""

from __future__ import annotations

from deep_bench.adapters.onnxruntime.faults import contrib, images, ml, standard

FAULTS = tuple(sorted((*standard.FAULTS, *images.FAULTS, *contrib.FAULTS, *ml.FAULTS), key=lambda fault: fault.name))
"""In alphabetical order."""
