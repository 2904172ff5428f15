"""What the tools that make a program's file system are told: a root that stays as it is, volumes where they belong."""

import os
from pathlib import Path

import pytest

from mooring.controllers.programs.sandbox import Mount, clear, inside, isolated

pytestmark = pytest.mark.req("S.4")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "image"
    for folder in ("etc/ssl", "var", "run"):
        (found / folder).mkdir(parents=True)
    (found / "var/run").symlink_to("/run")
    (found / "out").symlink_to("../../../etc")
    (found / "loop").symlink_to("loop")
    return found


def words(root: Path, *mounts: Mount) -> list[str]:
    return isolated(root, root.parent / "layer", mounts, hostname="web-0", directory="/srv", info=7)


def test_what_is_written_goes_into_a_layer_of_the_containers_own(root: Path) -> None:
    found = words(root)
    layer = root.parent / "layer"
    options = next(word for word in found if word.startswith("lowerdir="))
    assert options.startswith(f"lowerdir={root},upperdir={layer}/upper,workdir={layer}/work")
    assert found[found.index("--bind") : found.index("--bind") + 3] == ["--bind", str(layer / "root"), "/"]
    (layer / "upper" / "before").mkdir(parents=True)
    clear(layer)
    assert list((layer / "upper").iterdir()) == []


@pytest.mark.parametrize("user", [0, 1000])
def test_only_who_is_not_root_needs_a_namespace_of_users(
    user: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert ("--map-root-user" in words(root)) is (user != 0)


def test_it_ends_with_the_server_and_sees_no_other_processes(root: Path) -> None:
    assert {"--die-with-parent", "--unshare-pid", "--as-pid-1"} <= set(words(root))


def test_outer_mounts_come_before_inner_ones(root: Path, tmp_path: Path) -> None:
    inner, outer = Mount("/data/inner", tmp_path / "b"), Mount("/data", tmp_path / "a", read_only=True)
    found = words(root, inner, outer)
    assert found[-9:-3] == ["--ro-bind", str(tmp_path / "a"), "/data", "--bind", str(tmp_path / "b"), "/data/inner"]
    assert found[-3:] == ["--chdir", "/srv", "--"]


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/etc/ssl", "/etc/ssl"),
        ("/etc//new/./x/", "/etc/new/x"),
        ("/var/run/secrets/token", "/run/secrets/token"),
        ("/out/x", "/etc/x"),
        ("/../../x", "/x"),
        ("/loop/x", "/loop/x"),
    ],
)
def test_links_lead_nowhere_but_within_the_root(path: str, real: str, root: Path) -> None:
    assert inside(root, path) == real
