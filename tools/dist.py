"""Build a release into a folder: `make dist`. Two runs on one commit give the same bytes.

| File | What it is |
|---|---|
| `kube_mooring-*.whl`, `kube_mooring-*.tar.gz` | wheel and sdist |
| the one file, `PYZ` | one file that runs with any python3 of `--python` on `--platform` (by pex) |
| `kubectl-mooring.tar.gz`, `krew.yaml` | the same file as a plugin, and the manifest that krew installs it by |
| `mooring-*.tgz` | the Helm chart |
| `sbom.json` | what is in it, as CycloneDX |
| `SHA256SUMS` | checksums of all of them |

`--local` builds the one file for the interpreter that runs this, from packages in
uv's cache: seconds, for tests.
"""

import argparse
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
PYZ = "mooring.pyz"
EPOCH = "315532800"
"""1980-01-01, the oldest time that a zip file can hold: releases do not depend on when they were built."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORM = "manylinux_2_28_x86_64"


def build(folder: Path, platform: str | None, pythons: Iterable[str]) -> None:
    """Write all files of a release. `platform` None: for this interpreter only."""
    folder.mkdir(parents=True, exist_ok=True)
    _run(sys.executable, "-m", "hatchling", "build", "-d", folder)
    (wheel,) = folder.glob("*.whl")
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place) / "environment"
        _run(BIN / "uv", "venv", "--quiet", "--python", sys.executable, environment)
        install = (BIN / "uv", "pip", "install", "--quiet", "--python", environment)
        _run(*install, "-r", ROOT / "requirements.txt")
        _run(*install, "--no-index", "--no-deps", "--find-links", folder, "kube-mooring")  # a path would be recorded
        if platform is None:
            where: list[str | Path] = ["kube-mooring", "--venv-repository", environment]
        else:
            targets = (f"{platform}-cp-{python}.0-cp{python.replace('.', '')}" for python in pythons)
            where = [wheel, "--constraints", ROOT / "requirements.txt", *(f"--platform={each}" for each in targets)]
        program = folder / PYZ
        pex = (BIN / "pex", "--script=mooring", "--venv", "--no-compile", "--python-shebang=/usr/bin/env python3")
        _run(*pex, "--no-emit-warnings", "-o", program, *where)
        _run(*_sbom(environment), "--output-file", folder / "sbom.json")
    _archive(folder / "kubectl-mooring.tar.gz", {"kubectl-mooring": program, "LICENSE": ROOT / "LICENSE"})
    _write_krew_manifest(folder)
    version = _project()["project"]["version"]
    _archive(folder / f"mooring-{version}.tgz", dict(_chart_files()))
    _write_checksums(folder)


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _run(*command: str | Path) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PEX_IGNORE_RCFILES": "1"}
    subprocess.run(  # noqa: S603 - the commands of this file
        list(map(str, command)),
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def _sbom(environment: Path) -> tuple[str | Path, ...]:
    flags = ("--output-reproducible", "--output-format=JSON", "--spec-version=1.6", "--mc-type=application")
    return (BIN / "cyclonedx-py", "environment", "--pyproject", ROOT / "pyproject.toml", *flags, environment)


def _chart_files() -> Iterable[tuple[str, Path]]:
    chart = ROOT / "deploy" / "chart"
    return ((f"mooring/{path.relative_to(chart)}", path) for path in chart.rglob("*") if path.is_file())


def _archive(target: Path, files: Mapping[str, Path]) -> None:
    """Write a tar file without times, owners or other traces of this machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            entry.mtime = int(EPOCH)
            with path.open("rb") as content:
                archive.addfile(entry, content)
    target.write_bytes(gzip.compress(packed.getvalue(), compresslevel=1, mtime=0))


def _write_krew_manifest(folder: Path) -> None:
    project = _project()
    values = {
        "VERSION": project["project"]["version"],
        "REPOSITORY": project["tool"]["mooring"]["addresses"]["repository"] or "https://repository.invalid",
        "SHA256": hashlib.sha256((folder / "kubectl-mooring.tar.gz").read_bytes()).hexdigest(),
    }
    text = (ROOT / "deploy" / "krew" / "mooring.yaml").read_text()
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    (folder / "krew.yaml").write_text(text)


def _write_checksums(folder: Path) -> None:
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (folder / "SHA256SUMS").write_text("".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build a release.")
    parser.add_argument("folder", type=Path, help="an empty folder")
    parser.add_argument("--platform", default=PLATFORM, help="the platform of the one file, as in the name of a wheel")
    parser.add_argument("--python", nargs="+", default=PYTHONS, help="the versions of Python for the one file")
    parser.add_argument("--local", action="store_true", help="the one file for this interpreter only, without an index")
    given = parser.parse_args()
    if given.folder.is_dir() and any(given.folder.iterdir()):
        parser.error(f"{given.folder} is not empty")
    try:
        build(given.folder.resolve(), None if given.local else given.platform, given.python)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(error.cmd)} failed:\n{error.stderr.decode()}")


if __name__ == "__main__":
    main()
