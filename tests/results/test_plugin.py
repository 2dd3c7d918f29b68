"""The fixture ``deep_bench_gate``, in tests that pytest runs in this process."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import deep_bench.results.gate  # noqa: F401 - pytester forgets what its runs import
from deep_bench.results import gather

pytest_plugins = ["pytester"]

SUM = """
    def clock(call):
        call()
        return {ns}

    def test_sum(deep_bench_gate):
        deep_bench_gate(lambda: sum(range(100)), check=lambda total: total == {total}, timer=clock, budget=0.1)
"""
RIGHT, WRONG = 4950, 7
PLAIN = ("-p", "no:cacheprovider", "-p", "deep_bench.results.pytest_plugin")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other plugins: some take seconds to import, in each run."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def tests(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder of tests with a baseline of 10 µs by a clock that says what it is told to."""
    pytester.makepyfile(test_it=SUM.format(ns=10_000, total=RIGHT))
    pytester.runpytest_inprocess(*PLAIN, "--deep-bench-records", "base").assert_outcomes(passed=1)
    return pytester


def test_without_a_baseline_it_passes_and_says_so(tests: pytest.Pytester) -> None:
    done = tests.runpytest_inprocess(*PLAIN)
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*deep_bench gates*", "test_it.py::test_sum: no baseline: call *"])


def test_a_record_is_kept_and_the_test_is_its_label(tests: pytest.Pytester) -> None:
    kept = gather(tests.path / "base")
    assert [(r.labels["test"], r.outcome, next(iter(r.figures))) for r in kept] == [
        ("test_it.py::test_sum", "right", "call")
    ]


def test_slower_fails(tests: pytest.Pytester) -> None:
    tests.makepyfile(test_it=SUM.format(ns=11_100, total=RIGHT))
    done = tests.runpytest_inprocess(*PLAIN, "--deep-bench-baseline", "base", "--deep-bench-records", "head")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*fails on slower:10%: call", "test_it.py::test_sum: call slower: 1.110 *"])
    assert len(gather(tests.path / "head")) == 1
    tests.makepyfile(test_it=SUM.format(ns=10_900, total=RIGHT))
    passed = tests.runpytest_inprocess(*PLAIN, "--deep-bench-baseline", "base")
    passed.assert_outcomes(passed=1)
    passed.stdout.no_fnmatch_line("*cannot judge*")


def test_what_one_start_cannot_judge_is_said(tests: pytest.Pytester) -> None:
    tests.makepyfile(test_it=SUM.format(ns=10_700, total=RIGHT).replace("budget", "slower=0.05, budget"))
    done = tests.runpytest_inprocess(*PLAIN, "--deep-bench-baseline", "base")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["test_it.py::test_sum: cannot judge slower:5%: call: a side has one launch*launches*"])


def test_faster_passes_and_the_report_has_it(tests: pytest.Pytester) -> None:
    tests.makepyfile(test_it=SUM.format(ns=8_000, total=RIGHT))
    done = tests.runpytest_inprocess(*PLAIN, "--deep-bench-baseline", "base", "--junitxml", "found.xml")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["test_it.py::test_sum: call faster: *"])
    found = ET.parse(tests.path / "found.xml").findall(".//property")
    assert [one.get("name") for one in found] == ["deep_bench"]
    assert str(found[0].get("value")).startswith("call faster: ")


def test_wrong_fails_with_what_the_check_says(tests: pytest.Pytester) -> None:
    tests.makepyfile(test_it=SUM.format(ns=10_000, total=WRONG))
    for words in ([], ["--deep-bench-baseline", "base"]):
        done = tests.runpytest_inprocess(*PLAIN, *words, "--deep-bench-records", "head")
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["*AssertionError: check returned False", "test_it.py::test_sum: wrong: *"])
    assert {r.outcome for r in gather(tests.path / "head")} == {"wrong"}


def test_another_machine_is_refused_unless_told(tests: pytest.Pytester) -> None:
    for file in (tests.path / "base").glob("*.json"):
        file.write_text(file.read_text().replace('"hostname": "', '"hostname": "other-'))
    done = tests.runpytest_inprocess(*PLAIN, "--deep-bench-baseline", "base")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*host: other-*", "test_it.py::test_sum: not comparable with the baseline: *"])
    told = tests.runpytest_inprocess(*PLAIN, "--deep-bench-baseline", "base", "--deep-bench-across", "host")
    told.stdout.no_fnmatch_line("*not comparable*")


def test_a_baseline_of_other_tests_is_no_baseline(tests: pytest.Pytester) -> None:
    (tests.path / "test_it.py").rename(tests.path / "test_moved.py")
    (tests.path / "base" / "broken.json").write_text("{")
    done = tests.runpytest_inprocess(*PLAIN, "--deep-bench-baseline=base")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*no baseline (base has 1 other gates, such as test_it.py::test_sum; 1 files of base*"])


def test_cannot_tell_fails_only_where_asked(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        test_it="""
        import numpy as np

        class Restless:
            def __init__(self):
                self.levels, self.calls = np.random.default_rng(0).lognormal(14, 1, 1000), 0

            def __call__(self, call):
                self.calls += 1
                return int(self.levels[self.calls // 300 % 1000])

        def test_sum(deep_bench_gate):
            deep_bench_gate(lambda: None, timer=Restless(), budget=0.2)
        """
    )
    tests.runpytest_inprocess(*PLAIN, "--deep-bench-records", "noisy").assert_outcomes(passed=1)
    done = tests.runpytest_inprocess(*PLAIN, "--deep-bench-baseline", "noisy")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["test_it.py::test_sum: call cannot tell: *"])
    strict = tests.runpytest_inprocess(*PLAIN, "--deep-bench-baseline", "noisy", "--deep-bench-fail-on", "cannot-tell")
    strict.assert_outcomes(failed=1)


def test_what_a_run_found_is_taken_as_well(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import deep_bench as db
        from deep_bench.records.model import VerdictRecord

        def test_run(deep_bench_gate):
            found = db.run("digits-cnn", on=["reference"], budget=0.3, check="off", twin=False, progress=False)
            path = found.path
            deep_bench_gate(found, slower=100.0)
            assert "cell" not in found.record.recipe.options
            assert found.path == path
            found.record.systems[0].verdict = VerdictRecord(verdict="wrong", reason="it is broken")
            deep_bench_gate(found, name="broken")
        """
    )
    done = pytester.runpytest_inprocess(*PLAIN, "--deep-bench-records", "kept")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["test_*::test_run: no baseline: forward *", "test_*::test_run: broken: wrong: *"])
    assert {r.labels["test"].partition(" ")[2] for r in gather(pytester.path / "kept")} == {"", "broken"}


def test_bad_use_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from deep_bench.errors import InvalidArgument

        def test_it(deep_bench_gate):
            deep_bench_gate(lambda: None, budget=0.01)
            for arguments, match in (
                ({"what": lambda: None}, "two gates"),
                ({"what": 3, "name": "a"}, "int for a gate"),
                ({"what": lambda: None, "name": "b", "slower": 0.0}, "slower=0"),
                ({"what": lambda: None, "name": "c", "fail_on": ["never"]}, "never"),
                ({"what": object(), "name": "d", "check": bool}, "check beside"),
            ):
                with pytest.raises(InvalidArgument, match=match):
                    deep_bench_gate(**arguments)
        """
    )
    pytester.runpytest_inprocess(*PLAIN).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--deep-bench-baseline", "none"], "no such folder"),
        (["--deep-bench-records", "."], "name one folder"),
        (["--deep-bench-records", "test_it.py"], "not a folder"),
    ],
)
def test_folders_that_cannot_be_meant(pytester: pytest.Pytester, words: list[str], said: str) -> None:
    pytester.makepyfile(test_it="def test_it(): pass")
    both = [*words, "--deep-bench-baseline", "."] if "baseline" not in words[0] else words
    done = pytester.runpytest_inprocess(*PLAIN, *both)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*{said}*"])


def test_projects_that_do_not_use_it_notice_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    done = pytester.runpytest_inprocess(*PLAIN)
    done.assert_outcomes(passed=1)
    done.stdout.no_fnmatch_line("*deep_bench gates*")


def test_pytest_finds_it() -> None:
    assert [one.value for one in entry_points(group="pytest11", name="deep_bench")] == ["deep_bench.results.pytest_plugin"]


def test_importing_the_plugin_is_cheap() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import deep_bench.results.pytest_plugin; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert set(done.stdout.split()) == {"deep_bench", "lazy_loader"}
