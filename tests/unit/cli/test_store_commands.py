"""`mooring store`: what its commands print, and how they end."""

import asyncio
import gzip
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import mooring
from mooring.cli.support.progress import Progress
from mooring.store.kv import Put
from mooring.store.sqlite import SqliteStore

pytestmark = pytest.mark.req("S.7")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(mooring, ["store", *map(str, arguments)])


def config_map(name: str, size: int = 1) -> bytes:
    head = f'{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","uid":"{name}"}}'
    return f'{head},"data":{{"a":"{"x" * size}"}}}}'.encode()


NAMESPACE = b'{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"default","uid":"default"}}'


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    async def fill() -> None:
        store = await SqliteStore.open(tmp_path / "data")
        await store.write(Put("/registry/namespaces/default", NAMESPACE))
        await store.write_all([Put(f"/registry/configmaps/default/c{i}", config_map(f"c{i}", i)) for i in range(20)])
        await store.close()

    asyncio.run(fill())
    return tmp_path / "data"


def test_a_backup_is_verified_restored_and_is_then_what_it_was(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    made = run("backup", "--from", data_dir, file)
    assert made.exit_code == 0, made.output
    assert f"{file} has 21 keys of revision 21, sha256" in made.output
    assert run("verify", file).output == f"{file}: 21 keys at revision 21, 0 problems.\n"
    restored = run("restore", file, "--to", tmp_path / "new")
    assert f"{tmp_path / 'new'} holds 21 keys, as they were at revision 21." in restored.output
    assert "21 keys at revision 1000000021, 0 problems" in run("verify", tmp_path / "new").output


def test_a_copy_is_refused_over_another_store_without_overwrite(data_dir: Path, tmp_path: Path) -> None:
    copied = run("copy", "--from", data_dir, "--to", tmp_path / "b")
    assert (copied.exit_code, copied.output) == (
        0,
        f"copied: 21 of 21 keys\n{tmp_path / 'b'} holds 21 keys, as {data_dir} did at revision 21.\n",
    )
    again = run("copy", "--from", data_dir, "--to", tmp_path / "b")
    assert again.exit_code == 1
    assert again.output == f"Error: there is a store in {tmp_path / 'b'} already; --overwrite replaces it\n"
    assert run("copy", "--from", data_dir, "--to", tmp_path / "b", "--overwrite").exit_code == 0


def test_stats_count_and_name_the_largest(data_dir: Path) -> None:
    shown = json.loads(run("stats", data_dir, "-o", "json", "--largest", "1").stdout)
    assert shown["resources"]["configmaps"]["keys"] == 20
    assert shown["largest"] == [{"key": "/registry/configmaps/default/c19", "bytes": len(config_map("c19", 19))}]
    assert (shown["revision"], shown["history"]["events"], shown["total"]["keys"]) == (21, 21, 21)
    assert yaml.safe_load(run("stats", data_dir, "-o", "yaml", "--largest", "1").stdout) == shown
    lines = run("stats", data_dir).output.splitlines()
    assert lines[0].split() == ["RESOURCE", "KEYS", "BYTES", "LARGEST"]
    assert lines[1].split()[:2] == ["configmaps", "20"]


def test_compacting_forgets_and_shrinks(data_dir: Path) -> None:
    done = run("compact", data_dir)
    assert done.exit_code == 0, done.output
    assert f"{data_dir} remembers revision 21 and later ones; its file had" in done.output
    assert json.loads(run("stats", data_dir, "-o", "json").stdout)["oldestRevision"] == 21
    late = run("compact", data_dir, "--revision", "99")
    assert (late.exit_code, late.output) == (1, "Error: revision 99 is in the future: the current one is 21\n")


def test_verify_names_what_is_wrong_and_exits_with_1(data_dir: Path) -> None:
    async def harm() -> None:
        store = await SqliteStore.open(data_dir)
        await store.write(Put("/registry/configmaps/default/bad", b"hello"))
        await store.write(Put("/registry/configmaps/other/far", config_map("far").replace(b"default", b"other")))
        await store.close()

    asyncio.run(harm())
    found = run("verify", data_dir)
    assert found.exit_code == 1
    assert "problem: /registry/configmaps/default/bad: is no ConfigMap" in found.output
    assert "remark: /registry/configmaps/other/far: is in a namespace that does not exist" in found.output
    assert "23 keys at revision 23, 1 problem." in found.output
    shown = json.loads(run("verify", data_dir, "-o", "json").stdout)
    assert [(each["key"], each["remark"]) for each in shown["problems"]] == [
        ("/registry/configmaps/default/bad", False),
        ("/registry/configmaps/other/far", True),
    ]


def test_verify_shows_no_more_remarks_than_a_user_reads(data_dir: Path) -> None:
    async def harm() -> None:
        store = await SqliteStore.open(data_dir)
        await store.write_all(
            [Put(f"/registry/configmaps/gone/{i}", config_map(f"{i}").replace(b"default", b"gone")) for i in range(50)]
        )
        await store.close()

    asyncio.run(harm())
    shown = run("verify", data_dir)
    assert shown.exit_code == 0
    assert shown.stdout.count("is in a namespace that does not exist") == 20
    assert shown.stdout.endswith("… and 30 more remarks, all with -o json\n")


def test_verify_names_damage_of_the_file_by_key(data_dir: Path) -> None:
    with closing(sqlite3.connect(data_dir / "state.db")) as connection:
        connection.execute("UPDATE log SET value = x'00' WHERE revision = 5")
        connection.commit()
    found = run("verify", data_dir)
    assert found.exit_code == 1
    assert "/registry/configmaps/default/c3: the record of revision 5 does not fit its checksum" in found.output


@pytest.mark.parametrize("command", ["stats", "verify"])
def test_a_store_is_read_while_a_server_has_it_and_compacted_only_without(data_dir: Path, command: str) -> None:
    holder = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom mooring.store.kv import Put\n"
        "from mooring.store.sqlite import SqliteStore\n"
        "async def main():\n"
        "    store = await SqliteStore.open(Path(sys.argv[1]))\n"
        "    await store.write(Put('/registry/configmaps/default/c0', b'" + config_map("c0").decode() + "'))\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.to_thread(sys.stdin.read)\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        shown = run(command, data_dir)
        assert shown.exit_code == 0, shown.output
        assert "22" in shown.output
        refused = run("compact", data_dir)
        assert refused.exit_code == 1
        assert f"in use by process {process.pid}" in refused.output
        refused = run("copy", "--from", data_dir, "--to", data_dir / ".", "--overwrite")
        assert refused.exit_code != 0
        process.stdin.close()


@dataclass(frozen=True)
class Refusal:
    id: str
    arguments: Callable[[Path], list[str | Path]]
    code: int
    message: str


REFUSALS = [
    Refusal("no such place", lambda tmp: ["stats", tmp / "nowhere"], 1, "nowhere does not exist"),
    Refusal("no store there", lambda tmp: ["verify", tmp], 1, "there is no store in"),
    Refusal("nothing to compact", lambda tmp: ["compact", tmp], 1, "there is no store in"),
    Refusal("no backup", lambda tmp: ["restore", tmp / "diary"], 1, "diary is not a backup of Mooring"),
    Refusal("half a backup", lambda tmp: ["verify", tmp / "half"], 1, "half is not whole: its end is missing"),
    Refusal("a missing backup", lambda tmp: ["restore", tmp / "none"], 1, "none: No such file or directory"),
    Refusal("a diary as a store", lambda tmp: ["stats", tmp / "diary"], 1, "diary is not a Mooring store"),
    Refusal(
        "a file as a target", lambda tmp: ["restore", tmp / "good", "--to", tmp / "diary"], 1, "is a file; name the"
    ),
    Refusal("an unknown scheme", lambda _: ["stats", "http://x"], 2, "write etcd://host:2379/prefix"),
    Refusal("no server", lambda _: ["stats", "etcd:///registry"], 2, "names no server"),
    Refusal("an empty name", lambda _: ["stats", ""], 2, "the name is empty"),
    Refusal("a bad port", lambda _: ["stats", "etcd://host:port"], 1, "is no URL of an etcd server"),
    Refusal(
        "a certificate without its key",
        lambda tmp: ["stats", "etcds://host:1", "--etcd-certfile", tmp / "diary"],
        1,
        "needs its key",
    ),
    Refusal(
        "no password file",
        lambda tmp: ["stats", "etcd://host:1", "--etcd-user", "u", "--etcd-password-file", tmp / "none"],
        2,
        "--etcd-password-file",
    ),
    Refusal("the same store", lambda tmp: ["copy", "--from", tmp, "--to", tmp], 2, "are the same store"),
    Refusal(
        "a backup that exists", lambda tmp: ["backup", "--from", tmp, tmp / "diary"], 1, "exists already; --overwrite"
    ),
    Refusal(
        "a backup of a backup", lambda tmp: ["backup", "--from", tmp / "good", tmp / "x"], 1, "is a backup already"
    ),
    Refusal(
        "no folder to write to", lambda tmp: ["backup", "--from", tmp / "data", tmp / "no" / "x"], 1, "No such file"
    ),
]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.id)
def test_what_cannot_be_done_is_reported_in_a_sentence(data_dir: Path, tmp_path: Path, case: Refusal) -> None:
    assert run("backup", "--from", data_dir, tmp_path / "good").exit_code == 0
    (tmp_path / "diary").write_text("Dear diary, " * 900)
    (tmp_path / "half").write_bytes((tmp_path / "good").read_bytes()[:500])
    refused = run(*case.arguments(tmp_path))
    assert refused.exit_code == case.code, refused.output
    assert case.message in refused.output
    assert isinstance(refused.exception, SystemExit)


def test_a_damaged_backup_leaves_the_target_alone(data_dir: Path, tmp_path: Path) -> None:
    run("backup", "--from", data_dir, tmp_path / "b")
    lines = gzip.decompress((tmp_path / "b").read_bytes()).replace(b"c19", b"c91")
    (tmp_path / "b").write_bytes(gzip.compress(lines))
    refused = run("restore", tmp_path / "b", "--to", tmp_path / "new")
    assert "does not fit its checksum" in refused.output
    assert not (tmp_path / "new").exists()


class _Terminal:
    """Stands in for a terminal, to see what is drawn there."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_progress_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("copied") as progress:
        for done in (0, 500, 1000):
            progress("keys", done, 1000)
        progress("keys", 0, 0)
    assert "copied: 1,000 of 1,000 keys" in terminal.text
