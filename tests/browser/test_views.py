"""The eight views in a real browser: at three sizes, in light and dark, by pointer, keyboard and screen reader."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from dashboard_browser import Look, Servers
from dashboard_calls import shop
from mooring.advisor.snapshot import Snapshot
from mooring.testing.builders import node, pod

VIEWS = {
    "overview": "",
    "pending": "pending",
    "pod": "pods/default/new-kernel",
    "node": "nodes/west-0",
    "what-if": "what-if",
    "upgrade": "upgrade?start=1.36&to=1.37",
    "versions": "versions?to=1.36",
    "expressions": "expressions?kind=node&expression=node.labels['kernel']%20==%20'6.1.0'",
}
LISTS = {"pods": "pods", "nodes": "nodes"}
SIZES = {"wide": (1280, 900), "tablet": (768, 1024), "phone": (375, 740)}
STRUCTURES = Path(__file__).parent / "structures"
HOSTILE = "<img src=x onerror=alert(1)>"

_OUTLINE = """() => [...document.querySelectorAll("main :is(h1, h2, h3, table, form, svg[role=img])")]
  .filter((each) => each.checkVisibility())
  .map((each) => {
    const name = each.tagName.toLowerCase();
    const texts = (what) => [...each.querySelectorAll(what)].map((one) => one.innerText).join(" | ");
    if (name === "table") return "table: " + texts("thead th");
    if (name === "form") return "form: " + texts("button");
    if (name === "svg") return "picture: " + each.getAttribute("aria-label");
    return name + ": " + each.innerText;
  })"""
_LOADED = """() => ![...document.querySelectorAll("[data-src]")]
  .some((each) => each.checkVisibility() && each.innerText.trim().endsWith("…"))"""


def settled(page: Page) -> None:
    """Wait until the parts are loaded that load when a reader sees them.

    Each is scrolled to until it is loaded: a slow browser notices only what is still visible when it draws.
    """
    for part in page.locator("[data-src]").all():
        if part.is_visible():
            part.scroll_into_view_if_needed()
            page.wait_for_function("(part) => !part.innerText.trim().endsWith('…')", arg=part.element_handle())
    page.wait_for_function(_LOADED)


@pytest.mark.req("D.2", "D.3", "D.4", "D.5", "D.6", "D.7")
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_the_same_structure_at_every_size(view: str, look: Look, address: str) -> None:
    outlines = {}
    for size, (width, height) in SIZES.items():
        page = look(width, height).page
        page.goto(address + VIEWS[view])
        settled(page)
        outlines[size] = "\n".join(page.evaluate(_OUTLINE)) + "\n"
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), f"{size}: something is too wide"
        assert page.locator("nav[aria-label=Views] a").count() == 8
    stored = STRUCTURES / f"{view}.txt"
    assert outlines["wide"] == stored.read_text(), f"if this is meant, write it into {stored.name}"
    assert outlines["tablet"] == outlines["phone"] == outlines["wide"]


def test_a_part_that_cannot_be_loaded_says_so(look: Look, address: str) -> None:
    watched = look()
    page = watched.page
    page.goto(address + VIEWS["versions"])
    part = page.locator("#audit").get_attribute("data-src") or ""
    page.route(f"**{part}", lambda route: route.abort())
    page.reload()
    page.get_by_text("The dashboard does not answer.").wait_for()
    assert all("net::ERR_FAILED" in problem for problem in watched.problems), watched.problems
    watched.problems.clear()


@pytest.mark.req("D.1")
@pytest.mark.parametrize(
    ("view", "scheme"),
    [*((view, "light") for view in (*VIEWS, *LISTS)), ("overview", "dark"), ("pending", "dark"), ("versions", "dark")],
)
def test_a_view_is_accessible(view: str, scheme: str, look: Look, address: str) -> None:
    page = look(scheme=scheme).page
    page.goto(address + {**VIEWS, **LISTS}[view])
    settled(page)
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


@pytest.mark.req("D.1")
def test_the_keyboard_leads_past_the_menu_and_through_it(look: Look, address: str) -> None:
    page = look().page
    page.goto(address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "To the content"
    for name in ("Overview", "Pending 3"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.innerText").split() == name.split()
    page.keyboard.press("Enter")
    page.wait_for_url("**/pending")


@pytest.mark.req("D.2")
def test_a_square_of_the_map_names_its_node_and_links_to_it(look: Look, address: str) -> None:
    page = look().page
    page.goto(address)
    block = page.locator("svg.map").first
    block.hover(position={"x": 5, "y": 5})
    page.wait_for_selector("#tip:has-text('east-0: 50% of cpu')")
    block.click(position={"x": 5, "y": 5})
    page.wait_for_url("**/nodes/east-0")


@pytest.mark.req("D.2")
def test_the_map_is_grouped_and_coloured_as_chosen_with_an_address_to_share(look: Look, address: str) -> None:
    page = look().page
    page.goto(address)
    page.get_by_label("Coloured by").select_option("state")
    page.wait_for_url("**show=state**")
    page.get_by_label("Grouped by the label").fill("kernel")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**by=kernel&show=state")
    assert page.locator(".maps figcaption").all_inner_texts() == [
        "5.4.0: 2 nodes, 2 not ready",
        "6.1.0: 3 nodes, 3 not ready",
    ]


@pytest.mark.req("D.5")
def test_a_slider_shows_who_would_have_to_go(look: Look, address: str) -> None:
    page = look().page
    page.goto(f"{address}nodes/west-0")
    page.locator("input[type=range]").fill("899")
    page.wait_for_selector("text=With sla=899:NoExecute 3 of 3 pods would have to go")
    assert page.locator("#value-0").input_value() == "899"
    page.locator("#value-0").fill("930")
    page.wait_for_selector("text=With sla=930:NoExecute 0 of 3 pods would have to go")


@pytest.mark.req("D.6")
def test_a_scenario_is_built_and_run_by_clicking(look: Look, address: str) -> None:
    page = look().page
    page.goto(f"{address}what-if")
    page.get_by_label("Nodes: names or patterns").fill("east-1")
    page.get_by_role("button", name="Add the step").click()
    page.wait_for_selector("#scenario-box li:has-text('drain east-1')")
    page.get_by_label("What").select_option("addNodes")
    page.get_by_label("Number of nodes or replicas").fill("2")
    page.get_by_role("button", name="Add the step").click()
    page.wait_for_selector("#scenario-box li:has-text('add nodes 2')")
    page.get_by_role("button", name="Run it").click()
    page.wait_for_selector("#outcome h2:has-text('What would happen if: drain east-1; add 2 nodes')")
    assert page.locator("#outcome .figure", has_text="nodes").locator("b").inner_text() == "7"
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save the report").click()
    assert "drain east-1" in Path(saved.value.path()).read_text()
    page.get_by_text("The scenario as a file").click()
    with page.expect_download() as scenario:
        page.get_by_role("button", name="Save the file").click()
    assert "addNodes" in Path(scenario.value.path()).read_text()
    page.reload()  # the address has the scenario
    page.wait_for_selector("#scenario-box li:has-text('drain east-1')")


@pytest.mark.req("D.7")
def test_an_expression_is_evaluated_while_it_is_typed(look: Look, address: str) -> None:
    page = look().page
    page.goto(f"{address}expressions")
    field = page.get_by_label("Expression or range")
    field.fill("node.labels['kernel'] > 5")
    page.wait_for_selector("#tried h2:has-text('It would not be accepted')")
    assert page.locator(".error-line").inner_text().splitlines()[1] == f"{' ' * 22}^"
    field.fill("node.labels['kernel'] == '5.4.0'")
    page.wait_for_selector("#tried h2:has-text('It holds on 2 of 5 nodes')")
    page.get_by_label("What is it?").select_option("semver")
    field.fill(">=6")
    page.wait_for_selector("#tried h2:has-text('It holds on 3 of 5 nodes')")


@pytest.mark.req("D.3")
def test_a_command_is_copied_whole(look: Look, address: str) -> None:
    page = look().page
    page.goto(f"{address}pods/default/huge")
    text = page.locator(".command code").first.inner_text()
    page.locator(".command button").first.click()
    page.wait_for_selector("button:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == text
    assert text.startswith("kubectl ")


@pytest.mark.req("D.1")
@pytest.mark.parametrize("path", ["", "pending", "nodes", "pods", "pods/default/huge"])
def test_names_of_strangers_are_text(path: str, look: Look, servers: Servers) -> None:
    objects = [node(HOSTILE, zone=HOSTILE), *shop(), pod(f"{HOSTILE}2", cpu="1000"), pod(HOSTILE, on=HOSTILE)]
    page = look().page
    page.goto(servers.of(Snapshot(HOSTILE, objects)) + path)
    settled(page)
    assert page.locator("main img").count() == 0
