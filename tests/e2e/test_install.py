"""`make dist`: two builds are equal, and what was built works in empty environments."""

import fcntl
import filecmp
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.req("I.2")

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PENDING = """\
apiVersion: v1
kind: Pod
metadata: {name: big}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: "4000"}}}]
"""


def _run(*command: str | Path, cwd: Path, **more: str) -> str:
    words = [str(word) for word in command]
    environment = {**os.environ, **more}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def _build(folder: Path) -> Path:
    _run(sys.executable, ROOT / "tools" / "dist.py", "--local", folder, cwd=ROOT)  # what `make dist` runs
    return folder


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a release, built once for all processes that run tests."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (base / "dist.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return base / "dist" if (base / "dist" / "SHA256SUMS").exists() else _build(base / "dist")


@dataclass(frozen=True)
class Installed:
    """One way to have the command."""

    mooring: tuple[str | Path, ...]
    python: Path | None
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, *words: str | Path, cwd: Path) -> str:
        return _run(*self.mooring, *words, cwd=cwd, **self.environment)


@pytest.fixture(params=["the wheel", "the file", "uvx"])
def installed(request: pytest.FixtureRequest, built: Path, tmp_path: Path) -> Iterator[Installed]:
    """Mooring in an environment that has nothing else; packages are taken from uv's cache."""
    find = {"UV_FIND_LINKS": str(built), "UV_OFFLINE": "1", "UV_CONSTRAINT": str(ROOT / "requirements.txt")}
    match request.param:
        case "the wheel":
            folder = tmp_path / "environment"
            _run(BIN / "uv", "venv", "--python", sys.executable, folder, cwd=tmp_path)
            _run(BIN / "uv", "pip", "install", "--python", folder, "kube-mooring", cwd=tmp_path, **find)
            yield Installed(
                (folder / "bin" / "mooring",), folder / "bin" / "python", {"PYTHONPATH": _with_pytest(tmp_path)}
            )
        case "the file":
            places = {"PEX_ROOT": str(built.parent / "pex"), "PEX_EXTRA_SYS_PATH": _with_pytest(tmp_path)}
            yield Installed((sys.executable, built / "mooring.pyz"), built / "mooring.pyz", places)
        case "uvx":
            (line,) = set(
                re.findall(r"^uvx --from kube-mooring mooring", (ROOT / "README.md").read_text(), re.MULTILINE)
            )
            yield Installed((BIN / "uvx", *line.split()[1:]), None, find)


def _with_pytest(folder: Path) -> str:
    """Copy pytest, which is not part of a release, from this environment: uv's cache may not have its index page."""
    target = folder / "pytest-only"
    for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        for file in importlib.metadata.files(name) or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), target / file)
    return str(target)


def test_two_builds_are_byte_equal(built: Path, tmp_path: Path) -> None:
    again = _build(tmp_path / "again")
    names = sorted(path.name for path in built.iterdir())
    assert filecmp.cmpfiles(built, again, names, shallow=False) == (names, [], [])
    assert sorted(path.name for path in again.iterdir()) == names


def test_checksums_are_those_of_all_files(built: Path) -> None:
    lines = (built / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = {path.name: path for path in built.iterdir() if path.name != "SHA256SUMS"}
    assert listed == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def test_the_bill_of_materials_has_every_package_with_its_version(built: Path) -> None:
    found = json.loads((built / "sbom.json").read_text())
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    listed = {each["name"].lower().replace("_", "-") for each in found["components"] if each["purl"]}
    required = set(re.findall(r"^([\w-]+)==", (ROOT / "requirements.txt").read_text(), re.MULTILINE))
    assert required - listed == set()


def test_the_wheel_has_the_package_its_types_the_examples_and_what_deploys_it(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"mooring/py.typed", "mooring/cli/commands/up.py", "mooring/examples/tour/web.yaml"} <= set(names)
    assert "mooring/deploy/bridge/kustomization.yaml" in names
    entries = next(name for name in names if name.endswith("entry_points.txt"))
    text = zipfile.ZipFile(wheel).read(entries).decode()
    for command in ("mooring", "kubectl-mooring", "kubectl_complete-mooring"):
        assert f"{command} = mooring.cli.main:main" in text
    assert "mooring.testing.plugin = mooring.testing.plugin" in text


def test_a_wheel_made_from_the_sdist_is_the_same(built: Path, tmp_path: Path) -> None:
    (sdist,), (wheel,) = built.glob("kube_mooring-*.tar.gz"), built.glob("*.whl")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    source = next(tmp_path.glob("kube_mooring-*"))
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=source)
    assert sorted(zipfile.ZipFile(tmp_path / "again" / wheel.name).namelist()) == sorted(
        zipfile.ZipFile(wheel).namelist()
    )


def test_a_control_plane_runs_and_advice_is_given(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(PENDING)
    command = [str(word) for word in (*installed.mooring, "up", "--ephemeral", "--nodes", "1", "--port", "0")]
    environment = {**os.environ, **installed.environment}
    with subprocess.Popen(
        [*command, "--metrics-port", "0"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as up:
        assert up.stdout
        ready = next(line for line in up.stdout if "ready at" in line)
        kubeconfig = re.findall(r"KUBECONFIG=(\S+)", ready)[0]
        printed = installed.run("explain", "-f", "pod.yaml", "--kubeconfig", kubeconfig, cwd=tmp_path)
        up.terminate()
        assert up.wait(30) == 0
    assert "1 node  NodeResourcesFit" in printed
    assert '"errors": 0' in installed.run("lint", "pod.yaml", "-o", "json", cwd=tmp_path)


def test_pytest_finds_the_fixture(installed: Installed, tmp_path: Path) -> None:
    if installed.python is None:
        return  # uvx runs the command alone
    (tmp_path / "test_it.py").write_text("def test_it(mooring):\n    assert mooring.url.startswith('https://')\n")
    command = (installed.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    printed = _run(*command, cwd=tmp_path, PEX_INTERPRETER="1", **installed.environment)
    assert "1 passed" in printed


@pytest.mark.req("I.1")
def test_the_archive_for_krew_has_what_the_manifest_says_and_runs_as_a_plugin(built: Path, tmp_path: Path) -> None:
    manifest = yaml.safe_load((built / "krew.yaml").read_text())
    assert manifest["metadata"]["name"] == "mooring"
    assert re.fullmatch(r"v\d+\.\d+\.\d+", manifest["spec"]["version"])
    assert len(manifest["spec"]["shortDescription"]) <= 50
    (platform,) = manifest["spec"]["platforms"]
    archive = built / "kubectl-mooring.tar.gz"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert platform["uri"].startswith("https://")
    with tarfile.open(archive) as packed:
        assert {each["from"] for each in platform["files"]} == set(packed.getnames())
        packed.extractall(tmp_path / "store", filter="data")
    (tmp_path / "bin").mkdir()  # as krew links it
    (tmp_path / "bin" / "kubectl-mooring").symlink_to(tmp_path / "store" / platform["bin"])
    kubectl = shutil.which("kubectl")
    assert kubectl, "needs kubectl"
    path = f"{tmp_path / 'bin'}:{BIN}:{os.environ['PATH']}"
    printed = _run(kubectl, "mooring", "--help", cwd=tmp_path, PATH=path, PEX_ROOT=str(built.parent / "pex"))
    assert "Usage: kubectl mooring" in printed


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


def _instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, with continued lines joined."""
    text = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", "")
    lines = (line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return [(name, rest) for name, rest in lines]


def test_the_image_is_pinned_has_no_root_and_no_build_tools() -> None:
    found = _instructions()
    stages = [rest for name, rest in found if name == "FROM"]
    assert all("@${PYTHON_DIGEST}" in stage and "slim" in stage for stage in stages)  # hadolint DL3006, DL3007
    last = found[max(index for index, (name, _) in enumerate(found) if name == "FROM") :]
    assert dict(last)["USER"] == "65532:65532"  # DL3002
    assert json.loads(dict(last)["ENTRYPOINT"]) == ["mooring"]  # DL3025
    assert [rest for name, rest in last if name == "RUN"] == ["pip uninstall --yes pip"]
    assert {name for name, _ in found} <= {"ARG", "FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}
    installs = [step for name, rest in found if name == "RUN" for step in rest.split("&&") if " install " in step]
    assert all("--no-cache-dir" in step for step in installs)  # DL3042
    assert all("--requirement" in step or "--no-index" in step for step in installs)  # DL3013


def test_the_steps_of_the_image_work_in_a_plain_folder(built: Path, tmp_path: Path) -> None:
    """No container engine runs here: packages come from uv's cache, and folders are below one of our own."""
    (tmp_path / "build").mkdir()
    for path in (ROOT / "requirements.txt", *built.glob("*.whl")):
        shutil.copy(path, tmp_path / "build")
    (script,) = (rest for name, rest in _instructions() if name == "RUN" and "venv" in rest)
    for old, new in {
        "pip --python": f"{BIN / 'uv'} pip install --offline --python",
        " install --no-cache-dir": "",
        "/build/": f"{tmp_path}/build/",
        "/opt/mooring": f"{tmp_path}/mooring",
    }.items():
        script = script.replace(old, new)
    _run("sh", "-ec", script, cwd=tmp_path, PATH=f"{BIN}:{os.environ['PATH']}")
    assert "Mooring" in _run(tmp_path / "mooring" / "bin" / "mooring", "version", cwd=tmp_path)
