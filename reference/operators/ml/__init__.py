"""Classical machine learning, domain ``ai.onnx.ml``: encoders, scalers, linear models, support vectors and trees.

All versions of the domain are read: the older forms of an operator differ in the attributes that they state. Maps are
Python dictionaries, sequences are lists. Where the standard leaves a result open, it is what ONNX Runtime gives, for which
most of these models were made; each function says so.
"""

from __future__ import annotations

from deep_bench.reference.operators.ml import features, models, tree

FAMILIES = (features, models, tree)
