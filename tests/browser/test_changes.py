"""Changes of the cluster by clicking: each is shown with its command, and made only when the user confirms it."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from dashboard_browser import Look, Servers
from dashboard_calls import shop
from live_dashboard import connecting
from mooring.advisor.simulate import Settings
from mooring.dashboard.access import Access

pytestmark = pytest.mark.req("D.1")


@pytest.fixture(scope="module")
def changeable(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a dashboard with `--allow-changes` of a live cluster."""
    connect = connecting(tmp_path_factory.mktemp("changes"), shop())
    return servers.start(Access(origin="the test", settings=Settings(), connect=connect, allow_changes=True))


def _asked(page: Page, button: str) -> None:
    page.get_by_role("button", name=button).first.click()
    expect(page.locator("dialog[open]")).to_be_visible()


def test_a_change_is_shown_and_made_by_two_clicks(look: Look, changeable: str) -> None:
    page = look().page
    page.goto(f"{changeable}nodes/east-1")
    _asked(page, "cordon node east-1")
    expect(page.locator("dialog h2")).to_have_text("Really cordon node east-1?")
    expect(page.locator("dialog code")).to_have_text("kubectl cordon east-1")
    assert Axe().run(page).response["violations"] == []
    page.get_by_role("button", name="Do it").click()
    expect(page.locator("dialog h2")).to_have_text("Done")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#full .badge.warn")).to_have_text("cordoned")  # the page learnt of it by itself
    page.goto(changeable)
    expect(page.locator("#lately")).to_contain_text("from this dashboard: cordon node east-1")


@pytest.mark.req("D.3")
def test_what_would_help_is_done_from_the_list_of_pending_pods(look: Look, changeable: str) -> None:
    page = look().page
    page.goto(f"{changeable}pending")
    waiting = page.locator("section.reason", has_text="default/new-kernel")
    waiting.get_by_role("button", name=re.compile("^Do it: label node")).first.click()
    page.locator("dialog").get_by_role("button", name="Do it").click()
    expect(page.locator("dialog h2")).to_have_text("Done")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#reasons")).to_contain_text("the pod can be scheduled")


def test_the_keyboard_leaves_a_change_undone(look: Look, changeable: str) -> None:
    page = look().page
    page.goto(f"{changeable}pods/default/web-0")
    _asked(page, "delete pod default/web-0")
    expect(page.locator("dialog")).to_contain_text("it is gone for good")
    page.keyboard.press("Enter")  # on what has the focus: it closes, and does nothing
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.goto(f"{changeable}pods?q=web-0")
    expect(page.locator("#found")).to_contain_text("default/web-0")


@pytest.mark.req("D.5")
def test_a_value_that_was_tried_with_the_slider_is_set(look: Look, changeable: str) -> None:
    page, other = look().page, look().page
    other.goto(f"{changeable}expressions?kind=taint&expression=taint.value=='945'")
    expect(other.locator("#tried h2")).to_have_text("It holds on 0 of 2 taints")
    page.goto(f"{changeable}nodes/west-1")
    page.locator("input[type=range]").fill("945")
    _asked(page, "Set this value")
    expect(page.locator("dialog code")).to_have_text("kubectl taint node west-1 sla=945:NoExecute --overwrite")
    page.get_by_role("button", name="Do it").click()
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#question h3").first).to_have_text("sla=945:NoExecute")
    expect(other.locator("#tried h2")).to_have_text("It holds on 1 of 2 taints")  # other pages learn of it, too


def test_another_page_cannot_send_a_change(look: Look, changeable: str) -> None:
    """A page of a stranger who even knows the address: what its script and its form send is refused."""
    watched = look()
    page, statuses = watched.page, list[int]()
    page.on("response", lambda answer: statuses.append(answer.status) if "/changes" in answer.url else None)
    evil = f"""<form method=post action="{changeable}changes"><input name=what value=cordon><input name=node
      value=east-2><button>Win a prize</button></form>"""
    page.route("http://evil.example/", lambda route: route.fulfill(content_type="text/html", body=evil))
    page.goto("http://evil.example/")
    send = """(address) => fetch(address, { method: "POST", mode: "no-cors", body: "what=cordon&node=east-2" })
      .catch(() => null).then(() => null)"""
    page.evaluate(send, f"{changeable}changes")
    page.get_by_role("button", name="Win a prize").click()
    page.wait_for_load_state()
    watched.problems.clear()  # the browser complains of it too
    assert statuses
    assert set(statuses) == {403}
