from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from deep_bench.measure import environment
from deep_bench.measure.environment import Environment, StealMeter, capture, relevant


def test_the_environment_is_known_where_it_can_be() -> None:
    found = capture()
    assert found.logical_cpus == os.cpu_count()
    assert found.cpus_allowed == sorted(os.sched_getaffinity(0))
    assert found.memory_bytes > 2**28
    assert found.packages["numpy"]
    assert found.python.endswith(sys.version.split()[0])
    assert found.kernel == os.uname().release
    assert any(pool["user_api"] == "blas" for pool in found.blas)
    assert Environment.model_validate(json.loads(found.model_dump_json())) == found


def test_what_cannot_be_found_is_unknown_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise PermissionError("not allowed to look")

    monkeypatch.setattr(environment, "_FACTS", dict.fromkeys(environment._FACTS, broken))
    found = capture()
    assert found.cpu_model is None
    assert set(found.unknown) == set(environment._FACTS)
    assert "not allowed to look" in found.unknown["gpus"]


def test_capturing_imports_no_framework() -> None:
    program = (
        "import sys; from deep_bench.measure.environment import capture; capture();"
        "print({'torch', 'tensorflow', 'onnxruntime', 'mpi4py', 'jax'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_only_variables_that_matter_are_kept_and_never_secrets() -> None:
    kept = {"OMP_NUM_THREADS", "KMP_AFFINITY", "TF_ENABLE_ONEDNN_OPTS", "SLURM_JOB_ID", "LD_PRELOAD"}
    left = {"HOME", "SLURM_JWT", "NVIDIA_API_KEY", "ORT_TOKEN", "TFOO", "TF_CLI_CONFIG_FILE"}
    assert set(relevant(dict.fromkeys(kept | left, "1"))) == kept


def test_stolen_time_is_a_share_of_all_time(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([(10.0, 100.0), (15.0, 120.0)])
    monkeypatch.setattr(environment, "_cpu_times", lambda: next(readings))
    assert StealMeter().share() == 0.25


def test_without_a_count_of_stolen_time_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_cpu_times", lambda: None)
    assert StealMeter().share() is None


def test_outside_a_repository_there_is_no_git_state(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert capture().git == {}
