"""`python -m benchmarks compare`: errors are reported, and no checkout is left over."""

import subprocess
from pathlib import Path

import pytest
from benchmarks import compare

_GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "benchmarks").symlink_to(compare.HERE / "benchmarks")
    for words in (("init", "--quiet"), ("commit", "--quiet", "--allow-empty", "--message", "all")):
        subprocess.run([*_GIT, *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(compare, "HERE", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "reported"),
    [
        pytest.param(("HEAD",), 2, "python -m benchmarks compare OLD NEW BENCHMARK…", id="too few words"),
        pytest.param(("nosuch", "HEAD", "cel"), 1, "invalid reference: nosuch", id="no such commit before"),
        pytest.param(("HEAD", "nosuch", "cel"), 1, "invalid reference: nosuch", id="no such commit after"),
        pytest.param(("HEAD", "HEAD", "nosuch"), 1, "no such benchmark: nosuch", id="no such benchmark"),
    ],
)
def test_an_error_is_reported_and_nothing_is_left_over(
    arguments: tuple[str, ...], code: int, reported: str, repository: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert compare.run(arguments) == code
    said = capfd.readouterr().err
    assert reported in said
    assert "Traceback" not in said
    left = subprocess.run(["git", "worktree", "list"], cwd=repository, check=True, capture_output=True, text=True)
    assert len(left.stdout.splitlines()) == 1
