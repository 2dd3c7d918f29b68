"""Schemes by name, and by the import path of one that is nobody's but the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

import deep_bench as db
from deep_bench.distributed.communicators.local import run_local
from deep_bench.distributed.training.train import scheme_of
from deep_bench.errors import InvalidArgument, UnknownName

_OWN = """
from dataclasses import dataclass
from deep_bench.distributed.optimizer import DistributedOptimizer

@dataclass(frozen=True)
class Right(DistributedOptimizer):
    scale: float = 1.0

    def init(self, parameters, xp):
        return self.inner.init(parameters, xp)

    def update(self, gradients, state, parameters, xp, *, evaluate=None, samples=None):
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        mean = {name: self.comm.allreduce(g) * self.scale / self.comm.size for name, g in gradients.items()}
        return self.stepped(mean, state, parameters, xp)

nothing = 3
"""


def test_a_scheme_by_its_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_scheme_of_a_user.py").write_text(_OWN)
    (tmp_path / "broken_scheme_of_a_user.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)

    def on_rank(comm):
        trainer = db.distributed.train(
            "digits", on="reference", over=comm, scheme="own_scheme_of_a_user:Right:scale=1.0", seed=1
        )
        return trainer.run(steps=2).losses.tolist()

    one, other = run_local(2, on_rank)
    usual = run_local(2, lambda comm: db.distributed.train("digits", on="reference", over=comm, seed=1).run(steps=2).losses)
    assert one == other == pytest.approx(usual[0].tolist(), rel=1e-5)
    for wrong, error, said in (
        ("own_scheme_of_a_user:Wrong", InvalidArgument, "has no 'Wrong'"),
        ("own_scheme_of_a_user:nothing", InvalidArgument, "a subclass of DistributedOptimizer"),
        ("own_scheme_of_a_user:Right:scael=2", UnknownName, "did you mean 'scale'"),
        ("broken_scheme_of_a_user:Right", InvalidArgument, "ZeroDivisionError: division by zero"),
        ("no_such_module_at_all:Right", InvalidArgument, "there is no module 'no_such_module_at_all'"),
        ("allreduce:bucket", InvalidArgument, "setting=value"),
        ("alreduce", UnknownName, "did you mean 'allreduce'"),
    ):
        with pytest.raises(error, match=said):
            scheme_of(wrong)
