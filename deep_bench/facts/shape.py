"""Operators that move elements, or say where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deep_bench.facts.row import OperatorFacts, Work
from deep_bench.facts.rules import first, passing, single_result

_MOVE = OperatorFacts(cost=Work, index_arithmetic=True, growth=passing, defines_special=True)

OPERATORS: Mapping[str, OperatorFacts] = {
    "CenterCropPad": OperatorFacts(cost=Work, settings=(1,), constants=("shape",), grows=True),
    "Concat": replace(_MOVE, passes="some"),
    "DepthToSpace": OperatorFacts(
        cost=Work, choices={"mode": "CRD DCR"}, growth=passing, row_axes=first, by_sample=single_result, defines_special=True
    ),
    "Expand": replace(_MOVE, settings=(1,), constants=("shape",), passes="some", grows=True),
    "Flatten": replace(_MOVE, traffic="none", passes="each"),
    "Identity": replace(_MOVE, traffic="none", passes="each"),
    "Pad": replace(
        _MOVE,
        settings=(1, 3),
        constants=("pads", "axes"),
        initializer_settings=(2,),
        choices={"mode": "constant edge reflect wrap"},
        grows=True,
    ),
    "Reshape": replace(_MOVE, traffic="none", settings=(1,), constants=("shape",), passes="each"),
    "Shape": OperatorFacts(cost=Work, traffic="none", settings=(0,), index_arithmetic=True),
    "Size": OperatorFacts(cost=Work, traffic="none", settings=(0,), index_arithmetic=True),
    "Slice": replace(_MOVE, traffic="picked", settings=(1, 2, 3, 4), constants=("starts", "ends", "axes", "steps")),
    "SpaceToDepth": OperatorFacts(
        cost=Work, choices={"mode": "CRD DCR"}, growth=passing, row_axes=first, by_sample=single_result, defines_special=True
    ),
    "Split": replace(_MOVE, settings=(1,), constants=("split",)),
    "Squeeze": replace(_MOVE, traffic="none", settings=(1,), constants=("axes",), passes="each"),
    "Tile": replace(_MOVE, settings=(1,), constants=("repeats",), grows=True),
    "Transpose": replace(_MOVE, passes="each"),
    "Unsqueeze": replace(_MOVE, traffic="none", settings=(1,), constants=("axes",), passes="each"),
}
"""The rows, by operator."""
