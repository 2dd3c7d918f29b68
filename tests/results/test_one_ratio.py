"""``show`` and ``report`` say the same of the ratio of two systems, whether there are many blocks, few, or launches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deep_bench.measure.environment import Environment
from deep_bench.network.result import Result as Shown
from deep_bench.records import store
from deep_bench.records.model import BlockRecord, NetworkFacts, Record, SampleSet, SystemRecord
from deep_bench.results import gather
from deep_bench.results.report.contents import report
from deep_bench.results.report.model import Lines, Table


def made(folder: Path, blocks: int, launches: int) -> Path:
    random = np.random.default_rng(blocks)

    def block(level: float) -> BlockRecord:
        ns = (1e6 * level * random.normal(1, 0.01, 30)).astype(np.int64)
        return BlockRecord(start_ns=0, batch=1, n=30, ns=ns, preempted=np.zeros(30, bool))

    systems = [
        SystemRecord(
            label=name,
            framework=name,
            samples=[
                SampleSet(quantity="native", launch=launch, blocks=[block(level) for _ in range(blocks + (name == "jax"))])
                for launch in range(launches)
            ],
        )
        for name, level in (("torch", 1.0), ("jax", 1.1))
    ]
    network = NetworkFacts(name="lenet", sha256="0" * 64)
    return store.save(Record(deep_bench="0", environment=Environment(), systems=systems, network=network), folder)


@pytest.mark.parametrize(("blocks", "launches"), [(12, 1), (5, 1), (2, 1), (3, 2), (2, 4), (1, 10)])
def test_the_same_interval_or_the_same_reason(tmp_path: Path, blocks: int, launches: int) -> None:
    file = made(tmp_path, blocks, launches)
    shown = Shown.load(file)
    ratio = shown.ratio("jax", "torch")
    assert ratio is not None
    section = next(one for one in report(gather(tmp_path), base="torch").sections if one.name == "ratios")
    table, lines = section.blocks
    assert isinstance(table, Table)
    assert isinstance(lines, Lines)
    row = dict(zip((column.name for column in table.columns), table.rows[0], strict=True))
    assert row["ratio"] == f"{ratio.value:.2f}"
    if ratio.interval is None:
        assert row["95 % interval"] == "too few"
        assert f"No interval: {ratio.why}." in lines.lines
        assert ratio.why in shown.table(200)
        assert "--budget" in ratio.why or "--launches" in ratio.why
    else:
        assert row["95 % interval"] == f"{ratio.interval[0]:.2f} to {ratio.interval[1]:.2f}"
        assert not any(str(line).startswith("No interval") for line in lines.lines)
