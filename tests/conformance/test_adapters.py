"""Every adapter through every check of ``deep_bench.testing``; and adapters that are wrong on purpose are caught."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import deep_bench as db
from deep_bench.reference.network import ReferenceAdapter, ReferenceExecutor
from deep_bench.testing import ADAPTER_CHECKS
from deep_bench.testing.adapter import AFFINE, X, Y


def adapter_of(name: str):
    missing = db.frameworks.missing(name)
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    return db.frameworks[name]()


@pytest.mark.parametrize("check", ADAPTER_CHECKS)
@pytest.mark.parametrize("framework", list(db.frameworks))
def test_adapter(framework: str, check: str) -> None:
    ADAPTER_CHECKS[check](adapter_of(framework))


class _ReusedBuffer(ReferenceExecutor):
    def forward(self, inputs):
        if not hasattr(self, "kept"):
            self.kept = super().forward(inputs)
        for name, array in super().forward(inputs).items():
            self.kept[name][...] = array
        return self.kept


class _ChangedInputs(ReferenceExecutor):
    def __call__(self, inputs):
        found = super().__call__(inputs)
        for array in inputs.values():
            array.flags.writeable = True
            array += 1
        return found


class _CachedAnswer(ReferenceExecutor):
    def evaluate(self, inputs, **options):
        if not hasattr(self, "cached"):
            self.cached = super().evaluate(inputs, **options)
        return {name: array.copy() for name, array in self.cached.items()}


class _UncheckedInputs(ReferenceExecutor):
    def __call__(self, inputs):
        return self.forward(inputs)


class _IgnoredParameters(ReferenceExecutor):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.parameters = dict(self.parameters)


@dataclass
class _Broken:
    executor: type
    caught_by: str


BROKEN = [
    _Broken(_ReusedBuffer, "gives_fresh_outputs"),
    _Broken(_ChangedInputs, "keeps_inputs"),
    _Broken(_CachedAnswer, "takes_any_batch"),
    _Broken(_UncheckedInputs, "refuses_bad_inputs"),
    _Broken(_IgnoredParameters, "assigns_parameters"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.executor.__name__)
def test_wrong_adapters_are_caught(broken: _Broken) -> None:
    class Wrong(ReferenceAdapter):
        def prepare(self, network, *, mode="inference", outputs=None):
            return broken.executor(network, self, outputs)

    with pytest.raises((AssertionError, KeyError, ValueError)):
        ADAPTER_CHECKS[broken.caught_by](Wrong())


def test_an_adapter_that_writes_into_its_inputs_does_not_spoil_later_checks() -> None:
    class Greedy(ReferenceExecutor):
        def __call__(self, inputs):
            found = super().__call__(inputs)
            for array in inputs.values():
                array += 1
            return found

    class Writing(ReferenceAdapter):
        def prepare(self, network, *, mode="inference", outputs=None):
            return Greedy(network, self, outputs)

    with pytest.raises(ValueError, match="read-only"):
        ADAPTER_CHECKS["computes"](Writing())
    ADAPTER_CHECKS["computes"](ReferenceAdapter())
    assert not any(array.flags.writeable for array in (X, AFFINE, Y))


@pytest.mark.parametrize("name", ["", None, 3])
def test_an_adapter_must_have_a_name(name: object) -> None:
    class Nameless(ReferenceAdapter):
        pass

    Nameless.name = name
    with pytest.raises(AssertionError, match="its name is"):
        ADAPTER_CHECKS["describes_itself"](Nameless())
