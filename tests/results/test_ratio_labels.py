"""Rows of the tables of a report name all labels that tell them from the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from deep_bench.results import Results
from deep_bench.results.report.contents import report
from deep_bench.results.report.model import Sign, Table
from tests.results.made import blocks, figure, result


def ratios(results: Results, **options: Any) -> list[dict[str, str]]:
    """Column to cell, of each row of the ratios."""
    section = next(one for one in report(results, **options).sections if one.name == "ratios")
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    names = [column.name for column in table.columns]
    cells = [[cell.word if isinstance(cell, Sign) else str(cell) for cell in row] for row in table.rows]
    return [dict(zip(names, row, strict=True)) for row in cells]


def made(sizes: list[dict[str, str]], **more: str) -> Results:
    random = np.random.default_rng(0)
    systems = {"torch": 1.0, "jax": 1.1}
    return Results(
        result(figure(blocks(random, level)), framework=name, system=name, **about, **more)
        for about in sizes
        for name, level in systems.items()
    )


def test_sizes_that_change_together_are_all_named() -> None:
    found = ratios(made([{"size.batch": "1", "size.length": "128"}, {"size.batch": "8", "size.length": "512"}]))
    assert [(row["size.batch"], row["size.length"]) for row in found] == [("1", "128"), ("8", "512")]


def test_more_labels_than_columns_share_one() -> None:
    found = ratios(made([{f"size.{name}": size for name in "abcdef"} for size in "12"]))
    assert [row["size.a"] for row in found] == ["1", "2"]
    assert [row["further"] for row in found] == ["size.e 1, size.f 1", "size.e 2, size.f 2"]


def test_what_follows_from_problem_and_system_has_no_column() -> None:
    random = np.random.default_rng(0)
    found = ratios(
        Results(
            result(figure(blocks(random)), framework=name, system=name, network=network, dtype=dtype, version=name)
            for network, dtype in (("lenet", "float32"), ("bert", "float16"))
            for name in ("torch", "jax")
        )
    )
    assert {"dtype", "version", "framework", "record"}.isdisjoint(found[0])


def test_beside_another_factor_the_system_is_named() -> None:
    random = np.random.default_rng(0)
    results = Results(
        result(figure(blocks(random)), framework=name, system=name, optimizer=optimizer)
        for name in ("torch", "jax")
        for optimizer in ("Adam", "SGD")
    )
    found = ratios(results, base="optimizer=Adam")
    assert [(row["optimizer"], row["system"]) for row in found] == [("SGD", "torch"), ("SGD", "jax")]
    assert "framework" not in found[0]


def test_a_digest_that_tells_rows_apart_is_short() -> None:
    found = ratios(made([{"network.sha256": digit * 64} for digit in "ab"]))
    assert [row["network.sha256"] for row in found] == ["a" * 12, "b" * 12]
