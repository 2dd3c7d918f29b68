from __future__ import annotations

import site
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import deep_bench

PACKAGES = Path(site.getsitepackages()[0])
ROOT = Path(deep_bench.__file__).parents[1]
Make = Callable[..., Path]


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes a virtual environment without pip, which finds packages in the folders that are given."""

    def make(name: str, *folders: Path) -> Path:
        path = tmp_path_factory.mktemp("envs") / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
        inside(path).joinpath("others.pth").write_text("".join(f"{folder}\n" for folder in folders))
        return path

    return make


def inside(environment: Path) -> Path:
    """The folder that holds an environment's packages."""
    return next((environment / "lib").glob("python*/site-packages"))


@pytest.fixture(scope="session")
def beside(make_environment: Make) -> Path:
    """An environment with all packages of this one, and the same deep_bench."""
    return make_environment("beside", ROOT, PACKAGES)


@pytest.fixture(scope="session")
def bare(make_environment: Make) -> Path:
    """An environment without any package."""
    return make_environment("bare")


@pytest.fixture(scope="session")
def with_numpy(make_environment: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but NumPy."""
    folder = tmp_path_factory.mktemp("numpy_only")
    for found in PACKAGES.glob("numpy*"):
        (folder / found.name).symlink_to(found)
    return make_environment("with_numpy", folder)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes the wheel of a package ``tiny`` in a version, and returns the folder of all of them."""
    folder = tmp_path_factory.mktemp("wheels")

    def make(version: str) -> Path:
        about = f"tiny-{version}.dist-info"
        with zipfile.ZipFile(folder / f"tiny-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr("tiny.py", f"version = {version!r}\n")
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
            wheel.writestr(
                f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{about}/RECORD", "")
        return folder

    return make


def script(path: Path, text: str) -> Path:
    """A program for the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
