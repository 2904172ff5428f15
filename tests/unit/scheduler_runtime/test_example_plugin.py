"""The example of docs/scheduler-plugins.md does what the page says, and is found by its entry point."""

import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import registry
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, PluginUse, ProfileSpec
from mooring.scheduler.framework.registry import ENTRY_POINTS, PluginError
from mooring.scheduler.plugins import IN_TREE
from mooring.scheduler.running import options
from scheduler_objects import node, pod

EXAMPLE = Path(__file__).parents[3] / "examples" / "scheduler-plugin"
DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(autouse=True)
def _forgets() -> Iterator[None]:
    """Clear the cache of installed plugins, which change in these tests."""
    registry.from_entry_points.cache_clear()
    yield
    registry.from_entry_points.cache_clear()


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the example's package had been installed."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    entries = [EntryPoint(name, value, ENTRY_POINTS) for name, value in project["entry-points"][ENTRY_POINTS].items()]
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == ENTRY_POINTS else [])


def _engine() -> Engine:
    found = options.read((EXAMPLE / "scheduler.yaml").read_text())
    engine = Engine(found.profiles, registry={**IN_TREE, **registry.from_entry_points()})
    for name, team in (("n1", "blue"), ("n2", "red")):
        engine.put(node(name, labels={"racks.example.com/team": team}))
    return engine


@pytest.mark.usefixtures("_installed")
def test_a_pod_goes_to_a_rack_of_its_team() -> None:
    engine = _engine()
    assert engine.schedule(pod("web", scheduler="racks", labels={"team": "red"})).node == "n2"


@pytest.mark.usefixtures("_installed")
def test_a_pod_without_a_rack_gets_the_message_of_the_page() -> None:
    message = _engine().schedule(pod("web", scheduler="racks")).message
    assert message == "0/2 nodes are available: 2 node(s) belong to another team."
    assert message in (DOCS / "scheduler-plugins.md").read_text()


@pytest.mark.usefixtures("_installed")
def test_the_rack_with_fewer_pods_of_the_team_is_better() -> None:
    engine = _engine()
    engine.put(node("n3", labels={"racks.example.com/team": "red"}))
    engine.put(pod("one", cpu="0", on="n2", labels={"team": "red"}))
    assert engine.schedule(pod("two", cpu="0", scheduler="racks", labels={"team": "red"})).node == "n3"


@pytest.mark.req("V.4")
@pytest.mark.usefixtures("_installed")
def test_at_most_one_pod_of_a_team_goes_to_a_rack() -> None:
    profile = ProfileSpec(plugins=(*DEFAULT_PLUGINS, PluginUse("OnePerRack")))
    engine = Engine((profile,), registry={**IN_TREE, **registry.from_entry_points()})
    for name, rack in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        engine.put(node(name, labels={"racks.example.com/rack": rack}))
    engine.put(pod("one", on="n1", labels={"team": "red"}))
    assert engine.schedule(pod("two", labels={"team": "red"})).node == "n3"
    engine.put(pod("two", on="n3", labels={"team": "red"}))
    message = "0/3 nodes are available: 3 node(s) are in a rack that has a pod of the team."
    assert engine.schedule(pod("three", labels={"team": "red"})).message == message
    assert engine.schedule(pod("four", labels={"team": "blue"})).node
    engine.put(node("n2", labels={"racks.example.com/rack": "c"}))
    assert engine.schedule(pod("three", labels={"team": "red"})).node == "n2"
    assert len((EXAMPLE / "one_per_rack.py").read_text().splitlines()) <= 80


def test_a_plugin_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint("Broken", "no_such_module:X", group)])
    with pytest.raises(PluginError, match=r"Broken \(no_such_module:X\) cannot be loaded"):
        registry.from_entry_points()


def test_the_configuration_on_the_page_can_be_read() -> None:
    page = (DOCS / "scheduler.md").read_text()
    text = page.partition("```yaml\n")[2].partition("```")[0]
    engine = Engine(options.read(text).profiles)
    assert list(engine.profiles) == ["default-scheduler", "packing"]
