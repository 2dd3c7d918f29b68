"""The registry: names that stand for code, imported on first use."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

import deep_bench as db
from deep_bench import registry as registry_module
from deep_bench.errors import FrameworkMissing, UnknownName
from deep_bench.registry import Registry


@pytest.fixture
def shapes() -> Registry:
    return Registry(
        "shape",
        "example.shapes",
        {"ordered": "collections:OrderedDict", "counter": "collections:Counter", "absent": "no_such_package.a:B"},
        requires={"absent": ("no_such_package",)},
        extras={"absent": "deep-bench[absent]"},
    )


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers ``deque``, and a name that is built in already."""
    points = [EntryPoint("deque", "collections:deque", "example.shapes"), EntryPoint("counter", "os:path", "example.shapes")]

    def entry_points(*, group: str) -> Any:
        return EntryPoints(points).select(group=group)

    monkeypatch.setattr(registry_module, "entry_points", entry_points)


def test_names_are_sorted_and_counted(shapes: Registry) -> None:
    assert list(shapes) == ["absent", "counter", "ordered"]
    assert len(shapes) == 3
    assert "counter" in shapes
    assert "torus" not in shapes


def test_a_name_gives_the_object(shapes: Registry) -> None:
    assert shapes["ordered"].__name__ == "OrderedDict"


def test_an_unknown_name_suggests_a_known_one(shapes: Registry) -> None:
    with pytest.raises(UnknownName, match="did you mean 'ordered'"):
        shapes["orderd"]
    with pytest.raises(KeyError):
        shapes.missing("orderd")


def test_get_returns_the_default_for_an_unknown_name(shapes: Registry) -> None:
    assert shapes.get("orderd") is None


def test_what_is_not_installed_says_how_to_install_it(shapes: Registry) -> None:
    assert shapes.missing("absent") == ("no_such_package",)
    with pytest.raises(FrameworkMissing, match=r"pip install 'deep-bench\[absent\]'"):
        shapes["absent"]


@pytest.mark.usefixtures("foreign")
def test_other_packages_add_names_but_take_none(shapes: Registry) -> None:
    assert list(shapes) == ["absent", "counter", "deque", "ordered"]
    assert shapes["deque"].__name__ == "deque"
    assert shapes["counter"].__name__ == "Counter"


def test_looking_a_name_up_imports_its_module_only() -> None:
    code = (
        "import sys; from deep_bench.registry import Registry; "
        "r = Registry('x', 'example.x', {'a': 'colorsys:rgb_to_hsv', 'b': 'wave:open'}); "
        "list(r), 'a' in r, r.missing('a'); assert 'colorsys' not in sys.modules; "
        "r['a']; assert 'colorsys' in sys.modules and 'wave' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_built_in_frameworks() -> None:
    assert {"onnxruntime", "reference", "tensorflow", "torch"} <= set(db.frameworks)
    assert db.frameworks.missing("reference") == ()
