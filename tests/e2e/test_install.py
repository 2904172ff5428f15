"""Wheel and sdist build, and what is in them works in a fresh virtual environment."""

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _run(*command: str | Path, cwd: Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that has the wheel, and Mooring's dependencies from the one that runs the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)  # the pip that is here can install there, and making another takes a while
    (wheel,) = built.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    _run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=folder)
    packages = next((folder / "lib").glob("python3*/site-packages"))
    (packages / "dependencies.pth").write_text(_dependencies(folder))
    return folder / "bin"


def _dependencies(folder: Path) -> str:
    """A folder with links to all packages but Mooring itself, which is installed there for development."""
    links = folder / "dependencies"
    links.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "mooring" not in path.name and path.suffix != ".pth":
            (links / path.name).symlink_to(path)
    return f"{links}\n"


def test_the_wheel_has_the_package_its_types_the_examples_and_what_deploys_it(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"mooring/py.typed", "mooring/cli/commands/up.py", "mooring/examples/tour/web.yaml"} <= set(names)
    assert "mooring/deploy/bridge/kustomization.yaml" in names
    entries = next(name for name in names if name.endswith("entry_points.txt"))
    text = zipfile.ZipFile(wheel).read(entries).decode()
    assert "mooring = mooring.cli.main:main" in text
    assert "mooring.testing.plugin = mooring.testing.plugin" in text


def test_a_wheel_can_be_made_from_the_sdist(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=source)
    assert list((tmp_path / "again").glob("*.whl"))


def test_the_command_works(installed: Path, tmp_path: Path) -> None:
    assert "Mooring" in _run(installed / "mooring", "version", cwd=tmp_path)
    assert "Mooring" in _run(installed / "python", "-m", "mooring", "version", cwd=tmp_path)
    assert "_mooring_completion" in _run(installed / "mooring", "completion", "bash", cwd=tmp_path)


def test_a_control_plane_runs(installed: Path, tmp_path: Path) -> None:
    assert "That took" in _run(installed / "mooring", "demo", "--fast", cwd=tmp_path)


def test_pytest_finds_the_fixture(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(mooring):\n    assert mooring.url.startswith('https://')\n")
    printed = _run(installed / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path, cwd=tmp_path)
    assert "1 passed" in printed


def test_make_up_names_the_python_that_it_needs_before_it_does_anything(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements.txt").touch()
    old = tmp_path / "python3.9"
    pretend = "import sys; sys.version_info = (3, 9); sys.version = '3.9.2 (old)'; exec(sys.argv[1])"
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{pretend}" "$2"\n')
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "up", f"PYTHON={old}"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "Mooring needs Python 3.11 or newer" in done.stderr
    assert "is 3.9.2: name another one, as in  make up PYTHON=python3.12" in done.stderr
    assert not (tmp_path / ".venv").exists()
