"""Loops that frameworks own: hooks by hand, and Lightning where it is installed. (Keras runs in the examples.)"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import FrameworkMissing, UnknownName
from deep_bench.training.timeline.stamps import DONE, LEFT, DrivenPhase

LIGHTNING = next((name for name in ("lightning.pytorch", "pytorch_lightning") if find_spec(name.split(".")[0])), None)


def test_hooks_become_steps(clock: Any) -> None:
    with db.timeline(warm_up=0) as t:
        driven = DrivenPhase(t, "training")
        for _ in range(2):
            driven.begin_epoch()
            for _ in range(3):
                clock.ms(1)
                driven.begin_batch("forward", np.zeros((4, 2)))
                clock.ms(2)
                for _ in range(2):
                    driven.part("backward")
                    clock.ms(3)
                driven.end_batch()
            clock.ms(1)
            driven.end_epoch()
    found = t.result()["training"]
    assert found.durations_ns.tolist() == [9_000_000] * 6
    assert {row.name: row.per_step for row in found.rows[1:]} == {
        "between batches": 1,
        "forward": 1,
        "backward": 2,
        "not in any region": 1,
    }
    assert found.throughput == pytest.approx(4 / 0.009)
    assert [(e.n_steps, e.seconds, e.ending) for e in found.epochs] == [(3, 0.028, DONE)] * 2
    assert t.result().spans.open == 0


def test_a_framework_that_stops_in_a_batch(clock: Any) -> None:
    with db.timeline(warm_up=0) as t:
        driven = DrivenPhase(t, "training")
        driven.begin_epoch()
        driven.begin_batch("forward")
        driven.abandon()
        driven.begin_epoch()
        driven.begin_batch("forward")
        driven.begin_epoch()  # Keras says nothing when a batch fails, and fit is called again
        driven.end_epoch()
    found = t.result()["training"]
    assert (found.n_steps, found.left) == (0, 2)
    assert [epoch.ending for epoch in found.epochs] == [LEFT, LEFT, DONE]
    assert t.result().spans.open == 0


def test_lightning_hooks_in_its_order(clock: Any) -> None:
    pytest.importorskip("torch")
    from deep_bench.adapters.torch.profile import LightningHooks

    trainer = SimpleNamespace(sanity_checking=True)
    with db.timeline(warm_up=0) as t:
        hooks = LightningHooks(t, "training")
        hooks.on_validation_epoch_start(trainer, None)
        hooks.on_validation_batch_start(trainer, None, np.zeros((3, 1)), 0)
        hooks.on_validation_batch_end(trainer)
        hooks.on_validation_epoch_end()
        trainer.sanity_checking = False
        hooks.on_train_epoch_start()
        for _ in range(2):
            clock.ms(1)
            hooks.on_train_batch_start(trainer, None, np.zeros((3, 1)), 0)
            clock.ms(2)
            hooks.on_before_backward()
            clock.ms(4)
            hooks.on_after_backward()
            clock.ms(8)
            hooks.on_train_batch_end()
        hooks.on_train_epoch_end()
    found = t.result()
    assert list(found) == ["training"]  # a sanity check is no validation
    rows = {row.name: row.summary.median / 1e6 for row in found["training"].rows if row.summary is not None}
    assert rows == {"step": 15, "between batches": 1, "forward": 2, "backward": 4, "update": 8, "not in any region": 0}


@pytest.mark.skipif(LIGHTNING is None, reason="Lightning is not installed")
@pytest.mark.filterwarnings("ignore")  # Lightning's own, of versions and of loaders without workers
def test_lightning(tmp_path: Path) -> None:
    from importlib import import_module

    import torch

    assert LIGHTNING is not None
    lightning = import_module(LIGHTNING)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            return self.layer(batch).square().mean()

        def validation_step(self, batch: Any, _: int) -> None:
            self.layer(batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    loader = torch.utils.data.DataLoader(torch.ones(12, 2), batch_size=4)
    with db.timeline() as t:
        trainer = lightning.Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
            callbacks=[t.callback("lightning")],
        )
        trainer.fit(Module(), loader, loader)
    found = t.result()
    assert [(e.n_steps, e.samples) for e in found["training"].epochs] == [(3, 12)] * 2
    assert [(e.n_steps, e.samples) for e in found["validation"].epochs] == [(3, 12)] * 2
    names = [row.name for row in found["training"].rows]
    assert names == ["step", "between batches", "forward", "backward", "update", "not in any region"]
    assert found.spans.open == 0


@pytest.mark.skipif(LIGHTNING is not None, reason="Lightning is installed")
def test_lightning_that_is_missing_is_refused() -> None:
    pytest.importorskip("torch")
    with db.timeline() as t, pytest.raises(FrameworkMissing, match="pip install lightning"):
        t.callback("lightning")


def test_an_unknown_framework() -> None:
    with db.timeline() as t, pytest.raises(UnknownName, match="did you mean 'keras'"):
        t.callback("kears")
