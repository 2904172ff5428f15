"""Programs with a `root` that leave links in their volumes: nothing of the machine is read, written or created."""

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.controllers.programs.sandbox import Mount, build_isolation_command, create_layer, report_process_id_options

pytestmark = [
    pytest.mark.req("S.6"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap (Debian's package bubblewrap)"),
]
STARTS = 20
AT_FDCWD, RENAME_EXCHANGE = -100, 2


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield an image whose programs are the machine's, a volume, and a folder of the machine that is neither."""
    for name in ("image/usr", "volume", "other", "machine"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (tmp_path / "image" / name).symlink_to(f"usr/{name}")
    (tmp_path / "machine" / "secret").write_text("secret")
    yield tmp_path
    assert [path.name for path in (tmp_path / "machine").iterdir()] == ["secret"]
    assert (tmp_path / "machine" / "secret").read_text() == "secret"


def run(folder: Path, script: str, *mounts: Mount) -> subprocess.CompletedProcess[str]:
    usr = Mount("/usr", Path("/usr"), read_only=True)
    create_layer(folder / "layer")
    words = build_isolation_command(folder / "image", folder / "layer", [usr, *mounts], hostname="h", directory="/")
    with Path(os.devnull).open("w") as info:
        command = [*words, *report_process_id_options(info.fileno()), "/bin/sh", "-c", script]
        return subprocess.run(
            command, pass_fds=(info.fileno(),), capture_output=True, text=True, timeout=60, check=False, env={}
        )


def test_volumes_are_seen_where_they_are_mounted(folder: Path) -> None:
    (folder / "volume" / "a").write_text("from a volume")
    (folder / "message").touch()
    done = run(
        folder,
        "cat /data/a; touch /data/inner/b /new; echo end > /dev/termination-log; touch /fixed/c || echo; cat /tmp/t/a",
        Mount("/data", folder / "volume"),
        Mount("/data/inner", folder / "other"),
        Mount("/fixed", folder / "other", read_only=True),
        Mount("/tmp/t", folder / "volume"),
        Mount("/dev/termination-log", folder / "message"),
    )
    assert done.stdout == "from a volume\nfrom a volume"
    assert "Read-only file system" in done.stderr
    assert [path.name for path in (folder / "other").iterdir()] == ["b"]
    assert (folder / "message").read_text() == "end\n"
    assert not (folder / "image" / "new").exists()


@pytest.mark.parametrize("target", ["{machine}", "/oldroot{machine}", "/proc/self/root{machine}"])
@pytest.mark.parametrize("below", ["x/made", "x/secret", "x"])
def test_a_link_below_a_mount_path_creates_nothing_on_the_machine(target: str, below: str, folder: Path) -> None:
    (folder / "volume" / "x").symlink_to(target.format(machine=folder / "machine"))
    (folder / "other" / "secret").write_text("replaced")
    done = run(
        folder,
        f"cat /data/{below}; echo replaced > /data/{below}",
        Mount("/data", folder / "volume"),
        Mount(f"/data/{below}", folder / "other"),
    )
    assert done.returncode != 0
    assert f"cannot mount a volume at /data/{below}: " in done.stderr


def test_a_link_in_the_place_of_a_source_is_not_followed(folder: Path) -> None:
    (folder / "volume" / "sub").symlink_to(folder / "machine")
    done = run(folder, "cat /data/secret; echo replaced > /data/secret", Mount("/data", folder / "volume" / "sub"))
    assert done.returncode != 0
    assert done.stdout == ""
    assert "cannot mount a volume at /data: " in done.stderr


def test_a_directory_that_becomes_a_link_meanwhile_is_never_followed(folder: Path) -> None:
    """A program exchanges `sub` for a link as fast as it can, while others start with it as a source and a target."""
    volume, stop = folder / "volume", threading.Event()
    (volume / "sub").mkdir()
    (volume / "link").symlink_to(folder / "machine")

    def exchange() -> None:
        rename = ctypes.CDLL(None).renameat2
        while not stop.is_set():
            rename(AT_FDCWD, bytes(volume / "sub"), AT_FDCWD, bytes(volume / "link"), RENAME_EXCHANGE)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        for _ in range(STARTS):
            source = run(folder, "cat /data/secret; touch /data/made", Mount("/data", volume / "sub"))
            assert "secret" not in source.stdout
            run(folder, "touch /data/sub/made/x", Mount("/data", volume), Mount("/data/sub/made", folder / "other"))
    finally:
        stop.set()
        thread.join()
