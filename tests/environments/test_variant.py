"""How a framework in another environment is written."""

from __future__ import annotations

import pytest

from deep_bench.cli.verb import check_systems
from deep_bench.errors import FrameworkMissing, InvalidArgument, UnknownName, Unsupported
from deep_bench.variant import Variant


@pytest.mark.parametrize(
    ("text", "framework", "environment", "options"),
    [
        ("torch@envs/torch29", "torch", "envs/torch29", {}),
        ("torch@envs/torch29:device=cuda", "torch", "envs/torch29", {"device": "cuda"}),
        ("torch@envs/a@b", "torch", "envs/a@b", {}),
        (" onnxruntime@old:threads=1,optimize=off ", "onnxruntime", "old", {"threads": "1", "optimize": "off"}),
        ("mxnet@/opt/mx", "mxnet", "/opt/mx", {}),
        (
            "deep_bench.reference.network:ReferenceAdapter@~/env:a=1",
            "deep_bench.reference.network:ReferenceAdapter",
            "~/env",
            {"a": "1"},
        ),
    ],
)
def test_the_parts_of_a_variant(text: str, framework: str, environment: str, options: dict[str, str]) -> None:
    variant = Variant.parse(text)
    assert (variant.framework, variant.environment, dict(variant.options)) == (framework, environment, options)
    assert str(variant) == text.strip()
    assert variant.here.environment is None
    assert variant.lean == (framework == "mxnet")


def test_variants_of_this_environment_are_what_they_were() -> None:
    variant = Variant.parse("torch:device=cuda")
    assert variant == Variant("torch", {"device": "cuda"})
    assert variant.here == variant


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torch@", "names no environment"),
        ("torch@:threads=1", "names no environment"),
        ("torch:threads=1@envs/x", r"stands before the options: torch@envs/x:threads=1"),
        ("mxnet", "mxnet@ENVIRONMENT"),
        ("torch@envs/x:threads", "name=value pairs"),
        ("no.such_module:Adapter@envs/x", "there is no module"),
    ],
)
def test_what_is_written_wrong_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Variant.parse(text)


def test_a_misspelt_framework_has_a_nearest_one() -> None:
    with pytest.raises(UnknownName, match="did you mean 'mxnet'"):
        Variant.parse("mxnett@envs/x")


def test_a_framework_of_another_environment_need_not_be_installed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_bench.registry.find_spec", lambda name: None)
    with pytest.raises(FrameworkMissing):
        Variant.parse("torch")
    assert Variant.parse("torch@envs/x").framework == "torch"


def test_it_is_not_made_in_this_environment() -> None:
    with pytest.raises(Unsupported, match="lives in another environment"):
        Variant.parse("reference@envs/x").create()


def test_the_same_framework_may_be_compared_in_several_environments() -> None:
    check_systems(["reference", "reference@a/x", "reference@b/x"])
    with pytest.raises(InvalidArgument, match="each system once"):
        check_systems(["torch@a/x:threads=1,dtype=float16", "torch@a/x:dtype=float16,threads=1"])
