"""What goes to another process, and what cannot."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.workers.pickling import dumped, loaded

SOURCE = """
import deep_bench as db
SCALE = 2.0
class Scaled(db.Operator):
    computes = "Identity"
    def forward(self, x):
        return SCALE * x
"""


def test_what_no_other_process_could_import_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    ghost = ModuleType("ghost_of_a_module")
    monkeypatch.setitem(sys.modules, ghost.__name__, ghost)
    exec(SOURCE, ghost.__dict__)
    content = dumped(ghost.Scaled(), "Scaled")
    monkeypatch.delitem(sys.modules, ghost.__name__)
    assert loaded(content, "Scaled").forward(np.float32(3)) == 6


def test_what_others_can_import_goes_by_name() -> None:
    case = db.Case.of("Gemm", (2, 3), (3, 4))
    content = dumped(case, "the case")
    assert b"__post_init__" not in content
    assert len(content) < 5_000
    assert loaded(content, "the case").label == case.label


def test_what_cannot_be_pickled_is_refused_by_name() -> None:
    class Locked(db.Operator):
        computes = "Identity"

        def __init__(self) -> None:
            self.lock = threading.Lock()

        def forward(self, x):  # type: ignore[no-untyped-def, override]
            return x

    with pytest.raises(InvalidArgument, match="Locked cannot be sent to its process: TypeError"):
        dumped(Locked(), "Locked")


def test_what_cannot_be_read_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="the kernel cannot be read in its own process"):
        loaded(b"cno_such_module\nThing\n.", "the kernel")
