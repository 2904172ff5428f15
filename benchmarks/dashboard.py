"""The dashboard of a large cluster: how long until the first view, what live updates cost, what a browser holds.

    python benchmarks/dashboard.py [--nodes 5000] [--pods 50000] [--seconds 30] [--changes 50] [--keep DIR]
                                   [--in-process]

Fills a data directory, runs `mooring up` on it without scheduler and controllers, starts `mooring dashboard` and looks
at it with a real browser (chromium on the PATH), while pods change. With `--in-process` there is no server: the
dashboard gets objects and changes directly, which is faster to set up. See docs/benchmarks-details.md.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from msgspec import structs
from playwright.async_api import Browser, async_playwright

from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource
from mooring.apiserver.in_process import handler
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.base import component
from mooring.client import Change as ObjectChange
from mooring.client import Client, PatchType, connect
from mooring.client.in_process import InProcessTransport
from mooring.dashboard.access import Access
from mooring.dashboard.options import Running
from mooring.dashboard.server import DashboardServer
from mooring.dashboard.watching import Watching
from mooring.testing.builders import node, pod

_TICKS = os.sysconf("SC_CLK_TCK")
_AT_ONCE = 64
_WRITERS = 8
"""So many change pods at once: each has a connection of its own."""
_REPEATS = 5


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def started(words: list[str], sign: str) -> tuple[subprocess.Popen[str], str]:
    """Start a command; return it with the first line that contains `sign`."""
    process = subprocess.Popen([sys.executable, "-m", "mooring", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    for line in process.stdout:
        if sign in line:
            return process, line
    raise RuntimeError(f"mooring {' '.join(words)} ended")


def objects(nodes: int, pods: int) -> list[Resource]:
    """Nodes in three zones, and pods on them; one in 500 waits."""
    made: list[Resource] = [
        node(f"node-{number}", cpu="32", memory="128Gi", zone=f"zone-{number % 3}") for number in range(nodes)
    ]
    made += [
        pod(f"pod-{number}", cpu="1", memory="2Gi", on=f"node-{number % nodes}" if number % 500 else "")
        for number in range(pods)
    ]
    return made


async def fill(folder: Path, nodes: int, pods: int) -> None:
    """Make the objects in a data directory, without a socket in between."""
    async with await ApiServer.open(ServerConfig(data_dir=folder)) as server:
        admin = UserInfo(username="benchmark", groups=["system:masters"])
        client = Client(InProcessTransport(handler(server.app, admin)), user_agent="benchmark", scheme=server.scheme)
        waiting = iter(objects(nodes, pods))

        async def work() -> None:
            for each in waiting:
                each.metadata.uid = ""
                await client.create(each)

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


Change = Callable[[int, float], Awaitable[int]]
"""Gives so many pods a second other labels, for so many seconds, if it can: how many pods it were."""


async def over_http(client: Client, pods: int, a_second: int, seconds: float) -> int:
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        begun = time.monotonic()
        names = iter([f"pod-{(number + each) * 7 % pods}" for each in range(a_second)])
        body = {"metadata": {"labels": {"turn": str(time.time_ns())}}}  # also another one than in the last run

        async def work(names: Iterator[str], body: object) -> None:
            for name in names:
                await client.patch(Pod, name, body, "default", type=PatchType.MERGE)

        await asyncio.gather(*(work(names, body) for _ in range(_WRITERS)))
        number += a_second
        await asyncio.sleep(max(0.0, 1 - (time.monotonic() - begun)))
    return number


def timed(address: str) -> tuple[float, int]:
    begun = time.monotonic()
    with urlopen(address) as answer:
        size = len(answer.read())
    return time.monotonic() - begun, size


async def look(url: str, pid: int, change: Change, wanted: argparse.Namespace) -> None:
    path = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), None)
    if path is None:
        print("no browser here")
        return
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1280, "height": 900})
        begun, ours, theirs = time.monotonic(), cpu_seconds(pid), await browser_seconds(browser)
        await page.goto(url)
        await page.wait_for_selector("svg.map")
        took, ours = time.monotonic() - begun, cpu_seconds(pid) - ours
        spent = sum(now - theirs.get(each, 0.0) for each, now in (await browser_seconds(browser)).items())
        print(f"first view in a browser: {took:.2f} s; processor time {ours:.2f} s here, {spent:.2f} s in the browser")
        for changes in (0, wanted.changes):
            before, then, done = cpu_seconds(pid), time.monotonic(), 0
            if changes:
                done = await change(changes, wanted.seconds)
            else:
                await asyncio.sleep(wanted.seconds)
            took = time.monotonic() - then
            part = (cpu_seconds(pid) - before) / took
            print(f"live, {done / took:.0f} changed pods a second: {part:.1%} of a core")
        session = await page.context.new_cdp_session(page)
        await session.send("HeapProfiler.collectGarbage")
        heap = await session.send("Runtime.getHeapUsage")
        held = max(memory(each["id"]) for each in await processes_of(browser) if each["type"] == "renderer")
        print(f"the page: {heap['usedSize'] / 1e6:.1f} MB of script heap; renderer {held / 1e6:.0f} MB resident")
        await browser.close()


async def processes_of(browser: Browser) -> list[dict[str, Any]]:
    session = await browser.new_browser_cdp_session()
    found: list[dict[str, Any]] = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
    return found


async def browser_seconds(browser: Browser) -> dict[int, float]:
    """By process; those that have gone meanwhile are left out."""
    found = {}
    for each in await processes_of(browser):
        with suppress(FileNotFoundError):
            found[each["id"]] = cpu_seconds(each["id"])
    return found


def first_views(url: str, begun: float, pid: int) -> None:
    while b"node-map" not in urlopen(url).read():
        time.sleep(0.1)
    took = time.monotonic() - begun
    print(f"cluster read, first view: {took:.2f} s after the start, {cpu_seconds(pid):.2f} s of processor time")
    for name in ("", "pending", "pending/help/default/pod-0", "nodes", "pods", "pods/default/pod-1", "nodes/node-7"):
        before = cpu_seconds(pid)
        seconds, size = min(timed(url + name) for _ in range(_REPEATS))
        spent = (cpu_seconds(pid) - before) / _REPEATS
        print(f"  /{name}: {seconds * 1000:.0f} ms ({spent * 1000:.0f} ms of processor), {size / 1000:.0f} KB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--keep", type=Path, help="where the data directory is kept for the next run")
    parser.add_argument("--in-process", action="store_true")
    wanted, _ = parser.parse_known_args()
    if wanted.in_process:
        asyncio.run(measure_in_process(wanted))
        return
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        data = wanted.keep or Path(folder) / "data"
        if not data.exists():
            asyncio.run(fill(data, wanted.nodes, wanted.pods))
        flags = ["--data-dir", str(data), "--port", "0", "--nodes", "0", "--metrics-port", "-1"]
        flags += ["--kubeconfig", str(kubeconfig), "--without", "scheduler,controllers"]
        up, _ = started(["up", *flags], "is ready")
        try:
            asyncio.run(measure(kubeconfig, wanted))
        finally:
            up.terminate()
            up.wait()


async def measure(kubeconfig: Path, wanted: argparse.Namespace) -> None:
    async with connect(kubeconfig, user_agent="benchmark") as client:
        begun = time.monotonic()
        dashboard, line = started(["dashboard", "--no-browser", "--kubeconfig", str(kubeconfig)], "is at")
        url = line.rpartition(" ")[2].strip()
        print(f"{wanted.nodes} nodes, {wanted.pods} pods; load {os.getloadavg()[0]:.0f}")
        print(f"address printed: {time.monotonic() - begun:.2f} s")
        try:
            await asyncio.to_thread(first_views, url, begun, dashboard.pid)
            print(f"the dashboard: {memory(dashboard.pid) / 1e6:.0f} MB resident")
            await look(url, dashboard.pid, partial(over_http, client, wanted.pods), wanted)
        finally:
            dashboard.terminate()
            dashboard.wait()


async def measure_in_process(wanted: argparse.Namespace) -> None:
    """Measure pages without a server, live and in a browser."""
    found = objects(wanted.nodes, wanted.pods)
    print(f"{wanted.nodes} nodes, {wanted.pods} pods, in process; load {os.getloadavg()[0]:.0f}")
    snapshot = Snapshot("the benchmark", found)
    begun, spent = time.monotonic(), time.process_time()
    running = Running(component.resolve())
    access = Access(origin="the benchmark", settings=Settings(), running=running, read=lambda: snapshot)
    async with DashboardServer(access) as server:
        await server.cluster.ready()
        print(f"ready: {time.monotonic() - begun:.2f} s, {time.process_time() - spent:.2f} s of processor time")
        await asyncio.to_thread(first_views, server.url, begun, os.getpid())
        print(f"the dashboard: {memory(os.getpid()) / 1e6:.0f} MB resident")
        await look(server.url, os.getpid(), partial(directly, server.cluster, wanted.pods), wanted)


async def directly(cluster: Watching, pods: int, a_second: int, seconds: float) -> int:
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        current = await cluster.ask(lambda standing: standing.snapshot)
        olds = [current.find(Pod, "default", f"pod-{(number + each) * 7 % pods}") for each in range(a_second)]
        labels = {"turn": str(number)}
        changes = [
            ObjectChange(old, structs.replace(old, metadata=structs.replace(old.metadata, labels=labels)))
            for old in olds
            if old is not None
        ]
        await cluster.apply_changes(changes)
        number += a_second
        await asyncio.sleep(1)
    return number


if __name__ == "__main__":
    main()
