"""Exporters are found by name, and what they need is said."""

from __future__ import annotations

import pytest

from deep_bench.errors import FrameworkMissing, UnknownName
from deep_bench.graph.network import Network, exported, exporters


def test_each_exporter_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, method in (("torch", Network.from_torch), ("keras", Network.from_keras)):
        monkeypatch.setitem(exporters._requires, name, ("a_package_that_nobody_has",))
        with pytest.raises(FrameworkMissing, match=r"a_package_that_nobody_has(.|\n)*export"):
            method(None, None)


def test_an_unknown_exporter_is_refused() -> None:
    with pytest.raises(UnknownName, match="torch"):
        exported("torhc", None)
