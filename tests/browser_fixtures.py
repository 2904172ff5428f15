"""Fixtures: a real browser, and dashboards for it to look at. Without one tests are skipped, and the run says so."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

import outside_data
from dashboard_browser import Look, Servers, Watched
from dashboard_calls import shop
from mooring.advisor.snapshot import Snapshot


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of one module: while it is there, an event loop counts as running, and no other test could have its own."""
    path = outside_data.chromium()
    if path is None:
        pytest.skip("there is no browser here: install chromium, or name one with MOORING_CHROMIUM")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # it refuses root otherwise
        made = playwright.chromium.launch(executable_path=path, args=arguments)
        yield made
        made.close()


@pytest.fixture
def look(browser: Browser) -> Iterator[Look]:
    """Open a page of a size and a colour scheme; fails the test if a script or the policy complains."""
    opened: list[Watched] = []

    def new(width: int = 1280, height: int = 900, scheme: str = "light") -> Watched:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            permissions=["clipboard-read", "clipboard-write"],
        )
        watched = Watched(context.new_page())
        watched.page.set_default_timeout(20_000)
        watched.page.on("pageerror", lambda error: watched.problems.append(str(error)))
        watched.page.on("dialog", lambda dialog: watched.problems.append(f"a script has run: {dialog.message}"))
        watched.page.on(
            "console", lambda said: watched.problems.append(said.text) if said.type in ("error", "warning") else None
        )
        opened.append(watched)
        return watched

    yield new
    problems = [problem for watched in opened for problem in watched.problems]
    for watched in opened:
        watched.page.context.close()
    assert not problems, problems


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def address(servers: Servers) -> str:
    """Return a dashboard of the small shop."""
    return servers.of(Snapshot("the test", shop()))
