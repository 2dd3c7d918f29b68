"""``Verdict``: what the checker says of a result, and all it rests on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Word = Literal["right", "reduced precision", "wrong", "cannot tell", "no information"]


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What the replay of one node says.

    Args:
        name: The node's.
        operator: Its ONNX operator.
        word: What is said of it.
        reason: Why, in one sentence; empty where it is simply right.
        bits: Its significant bits; 53 where there was no error at all.
        format: The element type that it worked in; empty where nothing rounds.
        deficit: How many bits of that type are missing.
    """

    name: str
    operator: str
    word: Word
    reason: str
    bits: float
    format: str
    deficit: float


@dataclass(frozen=True, slots=True)
class OutputVerdict:
    """How one output of the network compares with the oracle's; the fields are those of `Agreement`."""

    name: str
    shape: tuple[int, ...]
    format: str
    reason: str
    bits: float
    largest: float = 0.0
    where: tuple[int, ...] = ()
    linear_share: float = 0.0
    information: float = 0.0
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    l1_error: float = 0.0
    l2_rel_error: float = 0.0
    max_ulp: float = 0.0
    mismatches: int = 0


@dataclass(frozen=True, slots=True)
class Repeatability:
    """Whether repeated runs gave the same bits, and the largest difference relative to the largest result if not."""

    bitwise: bool
    spread: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a system under test computed a network rightly, and how precisely.

    Args:
        word: *right*; *reduced precision* (rounding of a narrower format than the network states); *wrong*; *cannot tell*;
            or *no information* (rounding drowns the outputs, and all nodes alone are right).
        reason: Why, in one sentence.
        significant_bits: Of the worst node replayed alone, at most those of its format plus three.
        end_to_end_bits: Of the worst output.
        max_abs_error: Over all outputs.
        max_rel_error: The largest error of an output over the largest element of that output.
        max_ulp: The largest error in units in the last place of the element itself.
        outputs: One for each output.
        worst_nodes: The nodes with the fewest bits, at most ten, and all that are not right.
        replayed, refused: How many nodes were replayed, and how many the system under test would not run alone.
        findings: Remarks that do not decide.
        repeatability: Over two runs.
        effort: ``"quick"`` or ``"full"``.
        seconds: What judging took, without what `Truth` took.
    """

    word: Word
    reason: str
    significant_bits: float
    end_to_end_bits: float
    max_abs_error: float
    max_rel_error: float
    max_ulp: float
    outputs: tuple[OutputVerdict, ...]
    worst_nodes: tuple[NodeVerdict, ...]
    replayed: int
    refused: int
    findings: tuple[str, ...]
    repeatability: Repeatability
    effort: str
    seconds: float = field(compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The verdict in plain types, ready for JSON; infinities and NaNs become ``None``."""
        return _plain(dataclasses.asdict(self))


def _plain(x: Any) -> Any:
    if isinstance(x, Mapping):
        return {k: _plain(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [_plain(v) for v in x]
    if isinstance(x, float):
        return float(x) if abs(x) < float("inf") else None
    return x.item() if hasattr(x, "item") else x
