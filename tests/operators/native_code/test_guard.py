"""Guard zones: a function that leaves its tensors is caught, with the tensor and the place."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import Unsupported
from deep_bench.operators.native_code.guard import trespasses

X = np.arange(1, 9, dtype=np.float32)


def found(body: str, *, computes: str = "Identity", x: np.ndarray = X) -> list[str]:
    source = f'extern "C" void f(float *x, float *y, long n) {{ for (long i = 0; i < n; ++i) y[i] = x[i];\n{body} }}'
    operator = db.operators.native(
        source, function="f", computes=computes, signature="const float *x, float *y, int64_t n = x.size"
    )
    return [str(t) for t in trespasses(operator, [x])]


def test_a_clean_function_is_clean() -> None:
    assert found("") == []
    assert found("", x=np.zeros((2, 0), np.float32)) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "y[n] = 1;",
            "output y (y: float32[8]): bytes behind it were overwritten: 4 bytes, the first at byte 32, element 8",
        ),
        ("y[n + 100] = 0;", "behind it were overwritten: 4 bytes, the first at byte 432, element 108"),
        (
            "y[-2] = 1;",
            "output y (y: float32[8]): bytes before it were overwritten: 4 bytes, the first at byte -8, element -2",
        ),
        (
            "x[-1] = 1;",
            "input x (x: float32[8]): bytes before it were overwritten: 4 bytes, the first at byte -4, element -1",
        ),
        ("x[3] = 1e9;", "input x (x: float32[8]): an input was overwritten: 4 bytes, the first at byte 12, element 3"),
        ("y[n] = x[n];", "output y (y: float32[8]): bytes behind it were overwritten"),
        ("y[2] = x[n];", "input x (x: float32[8]): what lies around it was read, and changes the result"),
        ("y[2] += y[-1];", "output y (y: float32[8]): what lies around it was read, and changes the result"),
    ],
)
def test_each_trespass_is_named(body: str, said: str) -> None:
    (one,) = found(body)
    assert said in one


def test_a_result_that_is_not_written_in_full() -> None:
    source = 'extern "C" void f(const float *x, float *y, long n) { for (long i = 1; i < n; ++i) y[i] = x[i]; }'
    operator = db.operators.native(
        source, function="f", computes="Identity", signature="const float *x, float *y, int64_t n = x.size"
    )
    (one,) = trespasses(operator, [X])
    assert one.what == "not all of it is written, or it is read first"
    assert one.buffer == "output y"


def test_a_pattern_written_as_it_was_is_no_way_out() -> None:
    for byte in ("0xA5", "0x5A", "0xFF", "0x3F"):
        (one,) = found(f"((unsigned char *)(y + n))[0] = {byte};")
        assert "behind it were overwritten: 1 bytes" in one


def test_results_that_differ_by_themselves_are_no_trespass() -> None:
    assert found("static int calls; y[0] = ++calls;") == []


def test_the_backward_function_is_guarded_too() -> None:
    source = """
    extern "C" void f(const float *x, float *y) {}
    extern "C" void g(const float *dy, const float *x, const float *y, float *dx, long n) {
      for (long i = 0; i <= n; ++i) dx[i] = dy[i];
    }"""
    operator = db.operators.native(
        source,
        function="f",
        computes="Identity",
        signature="const float *x, float *y",
        backward="g",
        backward_signature="const float *dy, const float *x, const float *y, float *dx, int64_t n = x.size",
    )
    (one,) = trespasses(operator, [X], grads=[X], outputs=[X])
    assert str(one).startswith("gradient dx (dx: float32[8]): bytes behind it were overwritten")


def test_several_tensors_are_told_apart() -> None:
    source = 'extern "C" void f(const float *a, float *b, float *y) { for (long i = 0; i < 8; ++i) y[i] = a[i] + b[i + 1]; }'
    operator = db.operators.native(
        source, function="f", computes="Add", signature="const float *a, const float *b, float *y"
    )
    (one,) = trespasses(operator, [X, X])
    assert one.buffer == "input b"


def test_other_devices_are_refused() -> None:
    def computes(x: Any) -> Any:
        return x

    operator = db.operators.native("void f();", function="f", computes=computes, device="torch")
    with pytest.raises(Unsupported, match="guard zones with device='torch'"):
        trespasses(operator, [X])


def relu(body: str, **options: Any) -> db.Operator:
    source = f"""extern "C" void f(const float *x, float *y, long n) {{ {body} }}
    extern "C" void g(const float *dy, const float *x, float *dx, long n) {{
        for (long i = 0; i < n; ++i) dx[i] = x[i] > 0 ? dy[i] : 0;
        dx[n] = 3;
    }}"""
    signature = "const float *x, float *y, int64_t n = x.size"
    return db.operators.native(source, function="f", computes="Relu", signature=signature, **options)


def test_check_operator_finds_a_function_that_leaves_its_buffers() -> None:
    case = db.Case.of("Relu", (4, 5))
    past = relu("for (long i = 0; i < n + 1; ++i) y[i] = i < n ? (x[i] > 0 ? x[i] : 0) : 7;")
    findings = db.operators.check_operator(past, case, checks=["memory"], progress=False)
    assert not findings.ok
    assert findings[0].word == "wrong"
    assert "output y" in findings[0].reason
    assert "bytes behind it were overwritten" in findings[0].reason


def test_the_memory_check_looks_at_gradients_too() -> None:
    from deep_bench.operators.checks import memory_check

    case, plain = db.Case.of("Relu", (4, 5)), "for (long i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;"
    assert memory_check(relu(plain), case).word == "right"
    back = "const float *dy, const float *x, float *dx, int64_t n = x.size"
    finding = memory_check(relu(plain, backward="g", backward_signature=back), case)
    assert (finding.word, finding.place) == ("wrong", "backward")
    assert "gradient dx" in finding.reason


@pytest.mark.long
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc and its sanitizer")
def test_the_memory_check_says_what_it_does_not_see_and_sees_it_at_full_effort() -> None:
    from deep_bench.operators.checks import memory_check

    case, plain = db.Case.of("Relu", (4, 5)), "for (long i = 0; i < n; ++i) y[i] = x[i] < 0 ? 0 : x[i];"
    reads = relu(f"{plain} volatile float unused = x[n];")
    quick, full = memory_check(reads, case), memory_check(reads, case, effort="full")
    assert quick.word == "right"
    assert "further than 1024 KiB from a tensor, and reads that change no result, which effort=" in quick.reason
    assert (full.word, full.place) == ("wrong", "forward, AddressSanitizer")
    assert "heap-buffer-overflow, READ of size 4" in full.reason
    assert "bytes behind it were overwritten" in memory_check(relu(f"{plain} y[n + 100000] = 1;"), case).reason
    assert (memory_check(relu(plain), case, effort="full").word, memory_check(relu(plain), case).word) == ("right", "right")


def test_the_memory_check_says_nothing_of_kernels_in_python() -> None:
    from deep_bench.operators.checks import memory_check

    python = db.operators.wrap(lambda x: np.maximum(x, 0), computes="Relu")
    assert memory_check(python, db.Case.of("Relu", (4, 5))).word == "not applicable"
