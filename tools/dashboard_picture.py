"""Make the picture of the dashboard in the README: `python tools/dashboard_picture.py docs/dashboard.png`.

It generates a small cluster in three zones; Chromium (on the PATH, or MOORING_CHROMIUM) takes a picture of the page
about its pending pods. Run it when the page looks different.
"""

import asyncio
import os
import shutil
import sys
from pathlib import Path

from playwright.async_api import async_playwright

from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.api.meta_v1 import Resource
from mooring.base import component
from mooring.dashboard.access import Access
from mooring.dashboard.options import Running
from mooring.dashboard.server import DashboardServer
from mooring.testing.builders import node, pod

_SIZE = {"width": 1100, "height": 640}


def cluster() -> list[Resource]:
    """Sixty nodes in three zones; pods that run, and some that wait for a version or for more cores."""
    nodes = [
        node(f"node-{n}", cpu="16", zone=f"eu-{n % 3 + 1}", labels={"kernel": "6.1.0" if n % 4 else "5.4.0"})
        for n in range(60)
    ]
    running = [pod(f"web-{n}", cpu=str(n % 5 + 1), on=f"node-{n * 7 % 60}") for n in range(150)]
    terms = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["6.5.0"]}]}]
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return [*nodes, *running, pod("io-uring", cpu="1", spec={"affinity": affinity}), pod("huge", cpu="40")]


async def main(path: Path) -> None:
    snapshot = Snapshot("a cluster", cluster())
    access = Access(
        origin="a cluster", settings=Settings(), running=Running(component.resolve()), read=lambda: snapshot
    )
    browser_path = (
        os.environ.get("MOORING_CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")
    )
    async with DashboardServer(access) as server, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = await browser.new_page(viewport=_SIZE)  # type: ignore[arg-type] # a size is a size
        await page.goto(f"{server.url}pending")
        await page.wait_for_selector(".suggestions li")
        await page.screenshot(path=path)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
