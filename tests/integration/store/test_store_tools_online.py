"""The tools of stores against servers that write, processes that are killed, and a real etcd."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result

from etcd_servers import EtcdServers, etcd_cluster
from eventually import eventually
from mooring.cli.main import mooring
from mooring.store.errors import Incomplete, StorageError
from mooring.store.etcd.config import EtcdConfig, parse_servers
from mooring.store.etcd.store import EtcdStore
from mooring.store.kv import KeyValue, Put
from mooring.store.sqlite import SqliteStore
from mooring.store.tools.backup_file import read
from mooring.store.tools.etcd_source import EtcdSource
from mooring.store.tools.sqlite_source import SqliteSource
from running_server import RunningServer, running_server, start_server

pytestmark = pytest.mark.req("S.7")

FULL = bool(os.environ.get("MOORING_FULL"))
KEYS = 4000
ADDRESSES = {"/registry/endpoints/default/kubernetes", "/registry/endpointslices/default/kubernetes"}
"""Where a server writes at each start where it listens: every start of a test has another port."""
MOORING = [sys.executable, "-c", "from mooring.cli.main import main; main()", "store"]
WRITER = """
import asyncio, sys
from pathlib import Path
from mooring.store.kv import Put
from mooring.store.mvcc import HistoryLimits
from mooring.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]), limits=HistoryLimits(events=2_000))
    number = await store.revision()
    print("ready", flush=True)
    while True:
        group = [Put(f"/registry/x/{n % 400}", b"%d" % n + bytes(1500)) for n in range(number + 1, number + 9)]
        await store.write_all(group)
        number += len(group)

asyncio.run(main())
"""


def store(*arguments: str | Path) -> Result:
    return CliRunner().invoke(mooring, ["store", *map(str, arguments)])


def done(*arguments: str | Path) -> str:
    result = store(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@contextmanager
def writing(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that writes as fast as it can: write number n has revision n and goes to key n % 400."""
    command = [sys.executable, "-c", WRITER, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def numbers(items: list[KeyValue]) -> dict[str, int]:
    return {kv.key: int(kv.value.rstrip(b"\0")) for kv in items}


def expected_at(revision: int) -> dict[str, int]:
    return {f"/registry/x/{n % 400}": n for n in range(max(1, revision - 399), revision + 1)}


def fill(directory: Path, keys: int = KEYS) -> None:
    async def write() -> None:
        opened = await SqliteStore.open(directory)
        await opened.write_all([Put(f"/registry/x/{i}", os.urandom(700)) for i in range(keys)])
        await opened.close()

    asyncio.run(write())


def contents(directory: Path) -> dict[str, bytes]:
    return {kv.key: kv.value for kv in asyncio.run(SqliteSource(directory).snapshot()).items}


# -- while a server writes


def test_every_snapshot_of_a_file_that_is_being_written_is_exactly_one_revision(tmp_path: Path) -> None:
    revisions = []
    with writing(tmp_path):
        source = SqliteSource(tmp_path)
        for _ in range(40 if FULL else 10):
            time.sleep(random.uniform(0, 0.05))
            snapshot = asyncio.run(source.snapshot())
            assert numbers(list(snapshot.items)) == expected_at(snapshot.revision)
            revisions.append(snapshot.revision)
    assert revisions == sorted(set(revisions))


def test_a_backup_and_a_copy_of_a_file_that_is_being_written_are_exactly_one_revision(tmp_path: Path) -> None:
    with writing(tmp_path / "a"):
        done("backup", "--from", tmp_path / "a", tmp_path / "b")
        copying = store("copy", "--from", tmp_path / "a", "--to", tmp_path / "c")
    assert copying.exit_code == 0, copying.stderr
    header, items = read(tmp_path / "b")
    assert numbers(items) == expected_at(header.revision)
    snapshot = asyncio.run(SqliteSource(tmp_path / "c").snapshot())
    assert numbers(list(snapshot.items)) == expected_at(snapshot.revision)


def test_a_data_directory_with_a_server_on_it_moves_to_another_one_and_is_served_there(tmp_path: Path) -> None:
    with running_server(tmp_path / "a"):
        assert "0 problems" in store("verify", tmp_path / "a").stderr
        done("copy", "--from", tmp_path / "a", "--to", tmp_path / "b")
        refused = store("restore", "--to", tmp_path / "a", "--overwrite", tmp_path / "nothing")
        assert refused.exit_code == 1
    with running_server(tmp_path / "b"):
        assert "0 problems" in store("verify", tmp_path / "b").stderr


# -- kill -9


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where copies are left by tools that are killed."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))


def started(command: list[str | Path]) -> subprocess.Popen[str]:
    return subprocess.Popen([*MOORING, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_in_the_middle(command: list[str | Path], appears: Path, seconds: float) -> None:
    """Start a tool, and end it without any warning a while after a file has appeared."""
    with started(command) as process:
        while process.poll() is None and not list(appears.parent.glob(f"{appears.name}*")):
            time.sleep(0.001)
        time.sleep(seconds)
        process.kill()
        process.communicate()


def test_a_killed_backup_leaves_a_whole_file_or_none(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    before = contents(tmp_path / "data")
    for number in range(8 if FULL else 2):
        file = tmp_path / f"backup-{number}"
        command: list[str | Path] = ["backup", "--from", tmp_path / "data", file]
        kill_in_the_middle(command, file.with_name(f"{file.name}.partial"), random.uniform(0, 0.2))
        if file.exists():
            assert {kv.key: kv.value for kv in read(file)[1]} == before
    assert contents(tmp_path / "data") == before


def test_a_killed_restore_leaves_a_whole_store_or_one_that_refuses_to_start(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    done("backup", "--from", tmp_path / "data", tmp_path / "b")
    before = contents(tmp_path / "data")
    for number in range(8 if FULL else 2):
        target = tmp_path / f"restored-{number}"
        command: list[str | Path] = ["restore", tmp_path / "b", "--to", target]
        kill_in_the_middle(command, target / "state.db", random.uniform(0, 0.1))
        try:
            asyncio.run(_opened_and_closed(target))
        except Incomplete:
            done(*command)
        assert contents(target) == before


def test_a_killed_restore_over_a_store_leaves_the_old_one_or_the_new_one_or_one_that_refuses(tmp_path: Path) -> None:
    fill(tmp_path / "new")
    done("backup", "--from", tmp_path / "new", tmp_path / "b")
    fill(tmp_path / "data", keys=10)
    wanted = (contents(tmp_path / "data"), contents(tmp_path / "new"))
    for _ in range(8 if FULL else 2):
        command: list[str | Path] = ["restore", tmp_path / "b", "--to", tmp_path / "data", "--overwrite"]
        kill_in_the_middle(command, tmp_path / "data" / "state.db.incomplete", random.uniform(0, 0.1))
        try:
            asyncio.run(_opened_and_closed(tmp_path / "data"))
        except Incomplete:
            done(*command)
        assert contents(tmp_path / "data") in wanted


async def _opened_and_closed(directory: Path) -> None:
    await (await SqliteStore.open(directory)).close()


# -- Ctrl-C


def interrupted(command: list[str | Path], appears: Path) -> tuple[int, str, str]:
    """Start a tool, press Ctrl-C once a file has appeared, and see how it ends."""
    with started(command) as process:
        while process.poll() is None and not appears.exists():
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors


def test_ctrl_c_leaves_a_copy_that_is_clearly_not_finished(tmp_path: Path) -> None:
    fill(tmp_path / "a", keys=60_000)
    command: list[str | Path] = ["copy", "--from", tmp_path / "a", "--to", tmp_path / "b"]
    code, _, errors = interrupted(command, tmp_path / "b" / "state.db.incomplete")
    assert code == 130
    assert errors.endswith("Interrupted.\n")
    with pytest.raises(Incomplete):
        asyncio.run(_opened_and_closed(tmp_path / "b"))


def test_ctrl_c_finishes_a_copy_that_follows(tmp_path: Path) -> None:
    with writing(tmp_path / "a"):
        command: list[str | Path] = ["copy", "--follow", "--from", tmp_path / "a", "--to", tmp_path / "b"]
        code, output, errors = interrupted(command, tmp_path / "b" / "state.db.incomplete")
    assert code == 0, errors
    assert "keys, as" in output
    snapshot = asyncio.run(SqliteSource(tmp_path / "b").snapshot())
    assert numbers(list(snapshot.items)) == expected_at(snapshot.revision)


# -- etcd


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    with etcd_cluster(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers


def place(etcd: EtcdServers, prefix: str) -> str:
    return etcd.urls.replace("http://", "etcd://") + prefix


def has_written_all(server: RunningServer) -> bool:
    """Whether a server is done with what it writes at its start: where it listens, and what becomes of flows."""
    slices = listed(server, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")
    flows = listed(server, "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas")
    return bool(slices) and all(flow["status"].get("conditions") for flow in flows)


def listed(server: RunningServer, path: str) -> list[dict[str, Any]]:
    with urlopen(server.url + path, context=server.tls()) as answer:
        items: list[dict[str, Any]] = json.load(answer)["items"]
    return items


def test_a_cluster_moves_to_etcd_and_back_and_every_object_is_as_it_was(tmp_path: Path, etcd: EtcdServers) -> None:
    with running_server(tmp_path / "a") as server:
        eventually(lambda: has_written_all(server))
    there = place(etcd, "/there")
    assert "as" in done("copy", "--from", tmp_path / "a", "--to", there)
    with running_server(tmp_path / "a", *etcd.flags("/there")):
        assert "0 problems" in store("verify", there).stderr
    before = contents(tmp_path / "a")
    again = store("copy", "--from", tmp_path / "a", "--to", there)
    assert again.exit_code == 1
    assert "is not empty" in again.stderr
    assert "--overwrite" in again.stderr
    done("copy", "--from", there, "--to", tmp_path / "b")
    after = contents(tmp_path / "b")
    kept = [key for key in before if "/leases/" not in key and key not in ADDRESSES]
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    assert after.keys() >= ADDRESSES
    with running_server(tmp_path / "b"):
        pass


def test_a_store_in_etcd_is_backed_up_restored_counted_and_compacted(tmp_path: Path, etcd: EtcdServers) -> None:
    fill(tmp_path / "a", keys=1500)
    here = place(etcd, "/counted")
    done("copy", "--from", tmp_path / "a", "--to", here)
    same = store("copy", "--from", here, "--to", here.replace("127.0.0.1", "localhost"), "--overwrite")
    assert (same.exit_code, "are the same store" in same.stderr) == (2, True), same.output
    done("backup", "--from", here, tmp_path / "b")
    assert {kv.key: kv.value for kv in read(tmp_path / "b")[1]} == contents(tmp_path / "a")
    done("restore", tmp_path / "b", "--to", place(etcd, "/restored"))
    done("copy", "--from", place(etcd, "/restored"), "--to", tmp_path / "c")
    assert contents(tmp_path / "c") == contents(tmp_path / "a")
    shown = json.loads(done("stats", here, "-o", "json"))
    assert shown["resources"]["x"]["keys"] == 1500
    assert shown["fileBytes"] > 0
    assert "remembers revision" in done("compact", here)


def test_what_expires_still_does_after_a_way_through_etcd(tmp_path: Path, etcd: EtcdServers) -> None:
    async def write() -> None:
        opened = await SqliteStore.open(tmp_path / "a")
        await opened.write_all([Put(f"/registry/events/a/{n}", b"{}", ttl=600 + n / 10) for n in range(200)])
        await opened.close()

    asyncio.run(write())
    leases = etcd.etcdctl("lease", "list").count("\n")
    done("copy", "--from", tmp_path / "a", "--to", place(etcd, "/expiring"))
    assert etcd.etcdctl("lease", "list").count("\n") - leases <= 3
    done("copy", "--from", place(etcd, "/expiring"), "--to", tmp_path / "b")
    items = asyncio.run(SqliteSource(tmp_path / "b").snapshot()).items
    assert len(items) == 200
    assert all(500 < kv.expires - time.time() < 800 for kv in items)


def test_a_copy_into_etcd_that_was_killed_is_not_served_and_goes_on_when_it_is_run_again(
    tmp_path: Path, etcd: EtcdServers
) -> None:
    fill(tmp_path / "a")
    there = place(etcd, "/killed")
    with started(["copy", "--from", tmp_path / "a", "--to", there]) as process:
        while process.poll() is None and "incomplete" not in etcd.etcdctl("get", "--prefix", "--keys-only", "/killed/"):
            time.sleep(0.01)
        process.kill()
    refused = store("stats", there)
    assert "was not finished; wait for it, or run it again" in refused.stderr
    with pytest.raises(AssertionError, match="was not finished"):
        start_server(tmp_path / "server", *etcd.flags("/killed")).kill()
    done("copy", "--from", tmp_path / "a", "--to", there)

    async def found() -> dict[str, bytes]:
        opened = await EtcdStore.open(etcd.config("/killed"))
        try:
            return {kv.key: kv.value for kv in (await opened.range("")).items}
        finally:
            await opened.close()

    assert asyncio.run(found()) == contents(tmp_path / "a")


def test_what_is_not_mooring_s_in_etcd_is_refused_and_nothing_is_written(tmp_path: Path, etcd: EtcdServers) -> None:
    etcd.etcdctl("put", "/foreign/songs", "la la la")
    fill(tmp_path / "a", keys=3)
    for arguments in (
        ["stats", place(etcd, "/foreign")],
        ["copy", "--from", tmp_path / "a", "--to", place(etcd, "/foreign"), "--overwrite"],
    ):
        refused = store(*arguments)
        assert (refused.exit_code, "not Mooring's" in refused.stderr) == (1, True), refused.stderr
    absent = store("verify", place(etcd, "/absent"))
    assert absent.stderr == "Error: there is no store under /absent/ in etcd\n"
    assert etcd.etcdctl("get", "--prefix", "--keys-only", "/absent") == ""
    assert etcd.etcdctl("get", "--prefix", "--keys-only", "/foreign").split() == ["/foreign/songs"]


def test_an_etcd_with_certificates_is_written_and_read_with_them(tmp_path: Path) -> None:
    fill(tmp_path / "a", keys=5)
    with etcd_cluster(tmp_path / "etcd", tls=True) as servers:
        there = servers.urls.replace("https://", "etcds://")
        assert servers.client
        access: list[str | Path] = ["--etcd-cafile", servers.authority or "", "--etcd-keyfile", servers.client.key_file]
        access += ["--etcd-certfile", servers.client.certificate_file]
        done("copy", "--from", tmp_path / "a", "--to", there, *access)
        assert json.loads(done("stats", there, "-o", "json", *access))["total"]["keys"] == 5


async def test_an_etcd_that_does_not_answer_is_reported_in_a_sentence() -> None:
    config = EtcdConfig(servers=parse_servers("http://127.0.0.1:1"), request_seconds=0.3)
    with pytest.raises(StorageError, match="etcd did not answer within"):
        await EtcdSource.open(config, "etcd://127.0.0.1:1")
