"""What is compiled when, and what is said when it cannot be."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import FrameworkMissing, InvalidArgument, Unsupported
from deep_bench.operators.native_code import build, library
from deep_bench.operators.native_code.build import NativeSource
from deep_bench.operators.native_code.library import BuildFailed

ONE = 'extern "C" void f(const float *x, float *y) { y[0] = 1; }'
SIGNATURE = "const float *x, float *y"
X = np.zeros(1, np.float32)


def made(source: Any = ONE, **options: Any) -> Any:
    return db.operators.native(source, **{"function": "f", "computes": "Identity", "signature": SIGNATURE, **options})


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEEP_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "native"


def libraries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.so"))


def test_a_source_is_compiled_once(empty_cache: Path) -> None:
    first, second = made().built, made().built
    assert (first.cached, second.cached) == (False, True)
    assert libraries(empty_cache) == [first.path] == [second.path]
    assert first.route == "c"
    assert first.compiler is not None
    assert "g++" in first.compiler.version
    assert not list(empty_cache.glob("build-*"))


def test_contents_flags_and_compiler_decide(empty_cache: Path) -> None:
    clang_like = shutil.which("g++")
    built = {
        made().built.path,
        made(ONE + " ").built.path,
        made(flags=["-O1"]).built.path,
        made(compiler=f"{clang_like} -DX").built.path,
        made().built.path,
    }
    assert len(built) == 4


def test_what_the_environment_adds_to_headers_decides(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made().built.path
    monkeypatch.setenv("CPATH", "/nowhere")
    assert made().built.path != before


def test_a_changed_header_is_noticed(empty_cache: Path, tmp_path: Path) -> None:
    header, source = tmp_path / "my values.h", tmp_path / "f.cpp"
    source.write_text('#include "my values.h"\nextern "C" void f(const float *x, float *y) { y[0] = VALUE; }')
    for value in (1, 2, 1):
        header.write_text(f"#define VALUE {value}\n")
        assert made(source).forward(X) == value
    assert len(libraries(empty_cache)) == 2
    header.unlink()
    with pytest.raises(BuildFailed, match=r"my values\.h: No such file"):
        _ = made(source).built


def test_a_header_of_the_same_name_elsewhere_is_another_one(empty_cache: Path, tmp_path: Path) -> None:
    for value in (1, 2):
        folder = tmp_path / str(value)
        folder.mkdir()
        (folder / "v.h").write_text(f"#define VALUE {value}\n")
        (folder / "f.cpp").write_text('#include "v.h"\nextern "C" void f(const float *x, float *y) { y[0] = VALUE; }')
        assert made(folder / "f.cpp").forward(X) == value


def test_the_text_is_read_once_and_goes_along(tmp_path: Path) -> None:
    source = tmp_path / "f.cpp"
    source.write_text(ONE)
    operator = made(source)
    source.write_text("no longer C++")
    assert operator.forward(X) == 1


def test_many_processes_build_at_once(empty_cache: Path) -> None:
    code = f"""
    import numpy as np
    import deep_bench as db
    f = db.operators.native({ONE!r}, function="f", computes="Identity", signature={SIGNATURE!r})
    print(f.forward(np.zeros(1, np.float32))[0], f.built.cached)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = sorted(process.communicate()[0].split()[1] for process in running)
    assert [process.returncode for process in running] == [0] * 4
    assert said == ["False", "True", "True", "True"]
    assert len(libraries(empty_cache)) == 1


WAITING = """#!/bin/sh
case "$*" in *--version*) echo 1.0; exit;; esac
test -e {go} && exec g++ "$@"
echo started > {started}
exec sleep 1000
"""


def test_a_build_goes_on_where_a_process_was_killed_amid_one(empty_cache: Path, tmp_path: Path) -> None:
    waiting, started, go = tmp_path / "waiting", tmp_path / "started", tmp_path / "go"
    waiting.write_text(WAITING.format(go=go, started=started))
    waiting.chmod(0o700)
    os.mkfifo(started)
    code = f"""
    import deep_bench as db
    options = dict(function="f", computes="Identity", signature={SIGNATURE!r}, compiler={str(waiting)!r})
    db.operators.native({ONE!r}, **options).built
    """
    building = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], start_new_session=True)
    try:
        started.read_text()  # until the compiler writes
        building.kill()
        building.wait()
        assert list(empty_cache.glob("*/build-*"))
        go.touch()
        assert not made(compiler=waiting).built.cached  # while the compiler of the other still runs
    finally:
        os.killpg(building.pid, signal.SIGKILL)
    assert len(libraries(empty_cache)) == 1
    assert not list(empty_cache.glob("*/build-*"))
    assert made(compiler=waiting).built.cached


def test_an_interrupted_build_leaves_nothing_behind(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(build, "compile_library", interrupted)
        with pytest.raises(KeyboardInterrupt):
            _ = made().built
    assert not libraries(empty_cache)
    assert made().forward(X) == 1


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DEEP_BENCH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(InvalidArgument) as caught:
        _ = made().built
    assert str(tmp_path / "file" / "cache") in str(caught.value)
    assert "DEEP_BENCH_CACHE" in str(caught.value)


def test_a_read_only_file_system_serves_what_is_in_it(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise OSError(errno.EROFS, "Read-only file system")

    _ = made().built
    monkeypatch.setattr(build, "_locked", refused)
    assert made().built.cached
    with pytest.raises(InvalidArgument, match=r"cannot be used: .*Read-only file system"):
        _ = made(ONE + " ").built


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_serves_what_is_in_it(empty_cache: Path) -> None:
    _ = made().built
    empty_cache.chmod(0o500)
    try:
        assert made().built.cached
        with pytest.raises(InvalidArgument, match="cannot be used"):
            _ = made(ONE + " ").built
    finally:
        empty_cache.chmod(0o700)


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert build.cache_folder() == Path(os.environ["DEEP_BENCH_CACHE"]) / "native"
    monkeypatch.delenv("DEEP_BENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build.cache_folder() == tmp_path / "deep_bench" / "native"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build.cache_folder() == tmp_path / ".cache" / "deep_bench" / "native"


def test_the_compilers_messages_are_shown_as_they_are(tmp_path: Path) -> None:
    source = tmp_path / "wrong.cpp"
    source.write_text('extern "C" void f() {\n  flaot y = 1;\n}\n')
    said = subprocess.run(
        ["g++", "-shared", "-fPIC", "-o", "x.so", "wrong.cpp"], capture_output=True, text=True, check=False, cwd=tmp_path
    ).stderr
    with pytest.raises(BuildFailed) as caught:
        made(source).setup(db.Case.of("Identity", (1,)))
    assert "wrong.cpp:2:3: error:" in said
    assert said.rstrip() in str(caught.value)
    assert "the command was: " in str(caught.value)


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match=r"there is no compiler for C\+\+ on this machine(.|\n)*apt install g\+\+"):
        _ = made().built
    with pytest.raises(Unsupported, match="compiler='mycc': there is no such program"):
        _ = made(compiler="mycc").built
    monkeypatch.setenv("CXX", "icpx -O2")
    with pytest.raises(Unsupported, match="CXX=icpx -O2: there is no such program"):
        _ = made().built


def test_a_compiler_that_is_none(tmp_path: Path) -> None:
    false = shutil.which("false")
    with pytest.raises(InvalidArgument, match="--version fails"):
        _ = made(compiler=false).built
    (tmp_path / "liar").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "liar").chmod(0o755)
    with pytest.raises(BuildFailed, match="it wrote nothing, and ended with 0"):
        _ = made(compiler=tmp_path / "liar").built


def test_a_missing_function_says_which_there_are() -> None:
    with pytest.raises(InvalidArgument) as caught:
        made(ONE + 'extern "C" void g() {}', function="h").forward(X)
    assert "there is no function 'h' in the library\nExpected: one of f, g" in str(caught.value)
    with pytest.raises(InvalidArgument, match=r'write extern "C" before it: C\+\+ made _Z1fPf of its name'):
        made("void f(float *x) {}").forward(X)
    with pytest.raises(InvalidArgument, match="there is no function 'back'"):
        made(backward="back").backward([X], [X], [X])


def test_a_library_that_lacks_something_is_refused_with_the_loaders_words() -> None:
    with pytest.raises(InvalidArgument, match="undefined symbol: nowhere"):
        made('extern "C" void nowhere(); extern "C" void f(const float *x, float *y) { nowhere(); }').forward(X)


def test_exported_functions_are_found_in_the_file(tmp_path: Path) -> None:
    needs = 'extern "C" int puts(const char *); extern "C" void f(const float *x, float *y) { puts(""); }'
    assert library.exported_functions(made(needs).built.path) == ["f"]
    (tmp_path / "text").write_text("no library")
    assert library.exported_functions(tmp_path / "text") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "nowhere.cpp"}, r"nowhere\.cpp is not there"),
        ({"source": "."}, "is a folder"),
        ({"source": __file__}, r"ends with '\.py'"),
        ({"signature": "const float *x, int64_t n = z.size"}, r"'z\.size' in the signature of f"),
        (
            {"signature": "const float *x, const float *dy, float *y", "backward_signature": "float *dx", "backward": "g"},
            "two",
        ),
        ({"route": "pybind"}, "route='pybind'"),
        ({"flags": "-O3 -g"}, r"say flags=\['-O3', '-g'\]"),
        ({"signature": None, "backward_signature": "const float *dx", "backward": "g"}, "a backward signature alone"),
        ({"backward_signature": "const float *dy, float *dz", "backward": "g"}, "has a tensor 'dz' that is written"),
        ({"backward_signature": "const float *y2", "backward": "g"}, "has a tensor 'y2' that is read"),
    ],
)
def test_arguments_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        made(**{"source": ONE, **options})


def test_cuda_where_there_is_none(tmp_path: Path) -> None:
    source = tmp_path / "f.cu"
    source.write_text(ONE)
    with pytest.raises(InvalidArgument, match="device='cuda'"):
        made(source)
    try:
        build.require_cuda()
    except Unsupported:
        with pytest.raises(Unsupported, match="device='cuda' on a machine"):
            _ = made(source, device="cuda").built
    else:
        pytest.skip("there is a CUDA device")


def test_cuda_without_its_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "require_cuda", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match=r"there is no compiler for CUDA(.|\n)*install the CUDA toolkit"):
        _ = made(device="cuda").built


@pytest.mark.long
def test_the_cuda_template_compiles(tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    file = Path(__file__).parents[3] / "examples" / "gelu.cu"
    source = NativeSource(file.read_text(), "CUDA", file.name, file.parent)
    options = build.compiler_options("CUDA", ["-arch=sm_80"])
    built = build.compile_library(build.find_compiler("CUDA"), source, options, [], tmp_path)
    assert {"gelu", "gelu_backward"} <= set(library.exported_functions(built))


def test_tvm_ffi_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FrameworkMissing, match=r"pip install 'deep-bench\[native\]'"):
        _ = made("#include <tvm/ffi/function.h>\n").built
