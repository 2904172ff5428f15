"""The command line that gives a program its file system: a root that stays as it is, volumes where they belong."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mooring.controllers.programs.process import StartError
from mooring.controllers.programs.sandbox import Mount, build_isolation_command, create_layer, resolve_links

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
    return build_isolation_command(root, root.parent / "layer", mounts, hostname="web-0", directory="/srv")


def mounted(found: list[str]) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(next(word for word in found if word.startswith('{"root"')))
    return settings


def test_what_is_written_goes_into_a_layer_of_the_containers_own(root: Path) -> None:
    found = words(root)
    layer = root.parent / "layer"
    assert mounted(found)["options"].startswith(f"lowerdir={root},upperdir={layer}/upper,workdir={layer}/work")
    assert found[found.index("--bind") : found.index("--bind") + 3] == ["--bind", str(layer / "root"), "/"]
    (layer / "upper" / "before").mkdir(parents=True)
    create_layer(layer)
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
    place = str(root.parent / "layer" / "root")
    assert mounted(words(root, inner, outer))["binds"] == [
        [str(tmp_path / "a"), place, "/data", True],
        [str(tmp_path / "b"), place, "/data/inner", False],
    ]


def test_devices_are_mounted_after_bubblewraps_own(root: Path, tmp_path: Path) -> None:
    found = words(root, Mount("/dev/termination-log", tmp_path / "message"))
    place = str(root.parent / "layer" / "devices")
    assert mounted(found)["binds"] == [[str(tmp_path / "message"), place, "0", False]]
    assert found[-5:] == ["--bind", f"{place}/0", "/dev/termination-log", "--chdir", "/srv"]


@pytest.mark.parametrize("paths", [["/"], ["/proc/1"], ["/run/../proc"], ["/dev"], ["/dev/shm", "/dev/shm/x"]], ids=str)
def test_a_mount_path_that_bubblewrap_would_have_to_create_is_refused(paths: list[str], root: Path) -> None:
    with pytest.raises(StartError, match="nothing can be mounted there"):
        words(root, *(Mount(path, root) for path in paths))


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
    assert resolve_links(root, path) == real
