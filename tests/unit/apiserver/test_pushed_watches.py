"""A watch over the network has no task: it is called when there is news, and hands them to its connection."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from api_caller import CONFIG_MAPS, ApiCaller, api_caller, config_map
from mooring.apiserver.messages.http import Pushed, Request
from mooring.apiserver.messages.routes import resolve
from mooring.store.errors import StorageFailed
from mooring.testing.clock import settle

pytestmark = pytest.mark.req("S.4")


class RecordingConnection:
    """Record what is written to a connection."""

    def __init__(self) -> None:
        self.is_ready = True
        self.chunks: list[bytes] = []
        self.how_it_ended = ""

    def write(self, chunk: bytes) -> None:
        assert self.is_ready
        self.chunks.append(chunk)

    def end(self) -> None:
        self.how_it_ended = "whole"

    def break_off(self) -> None:
        self.how_it_ended = "broken off"

    @property
    def events(self) -> list[tuple[str, str]]:
        """The type of each event, and the name of its object."""
        lines = [json.loads(line) for chunk in self.chunks for line in chunk.splitlines()]
        return [(line["type"], line["object"].get("metadata", {}).get("name", "")) for line in lines]


@pytest.fixture
async def api() -> AsyncIterator[ApiCaller]:
    async with api_caller() as made:
        await made.post(CONFIG_MAPS, config_map("first"))
        yield made


async def follow(api: ApiCaller, query: dict[str, str] | None = None) -> tuple[Pushed, RecordingConnection]:
    asked = {"watch": "1", "resourceVersion": "0", **(query or {})}
    parameters = {name: [value] for name, value in asked.items()}
    request = Request(method="GET", path=CONFIG_MAPS, query=parameters, user=api.user)
    route = resolve(api.scheme, CONFIG_MAPS)
    assert route is not None
    body = (await api.resources.handle(request, route)).body
    assert isinstance(body, Pushed)
    reported = RecordingConnection()
    async for chunk in body.beginning():
        reported.write(chunk)
    body.follow(reported)
    await settle()
    return body, reported


async def test_what_is_there_comes_first_and_news_come_by_themselves(api: ApiCaller) -> None:
    _, reported = await follow(api)
    assert reported.events == [("ADDED", "first")]
    await api.post(CONFIG_MAPS, config_map("second"))
    await api.put(f"{CONFIG_MAPS}/second", config_map("second", key="value"))
    await api.delete(f"{CONFIG_MAPS}/second")
    await settle()
    assert reported.events[1:] == [("ADDED", "second"), ("MODIFIED", "second"), ("DELETED", "second")]


async def test_a_client_that_reads_nothing_gets_all_at_once_when_it_reads_again(api: ApiCaller) -> None:
    body, reported = await follow(api)
    reported.is_ready = False
    for name in ("second", "third"):
        await api.post(CONFIG_MAPS, config_map(name))
        await settle()
    assert reported.events == [("ADDED", "first")]
    reported.is_ready = True
    body.push()
    assert reported.events[1:] == [("ADDED", "second"), ("ADDED", "third")]


async def test_all_watchers_of_a_place_are_handed_the_same_bytes(api: ApiCaller) -> None:
    reported = [(await follow(api))[1] for _ in range(3)]
    await api.post(CONFIG_MAPS, config_map("second"))
    await settle()
    assert [each.events for each in reported] == [[("ADDED", "first"), ("ADDED", "second")]] * 3
    assert reported[0].chunks[-1] is reported[1].chunks[-1] is reported[2].chunks[-1]


async def test_a_watch_by_a_label_gets_no_other_events(api: ApiCaller) -> None:
    (_, everything), (_, some) = await follow(api), await follow(api, {"labelSelector": "tier=web"})
    await api.post(CONFIG_MAPS, config_map("db"))
    await api.post(CONFIG_MAPS, config_map("web", labels={"tier": "web"}))
    await settle()
    assert everything.events == [("ADDED", "first"), ("ADDED", "db"), ("ADDED", "web")]
    assert some.events == [("ADDED", "web")]


async def test_more_watchers_than_are_served_in_a_turn_are_all_served(api: ApiCaller) -> None:
    reported = [(await follow(api))[1] for _ in range(1203)]
    await api.post(CONFIG_MAPS, config_map("second"))
    await settle()
    assert all(each.events[-1] == ("ADDED", "second") for each in reported)


async def test_a_watcher_that_fell_behind_the_history_is_asked_to_list_again(api: ApiCaller) -> None:
    body, reported = await follow(api)
    reported.is_ready = False
    await api.post(CONFIG_MAPS, config_map("second"))
    await api.post(CONFIG_MAPS, config_map("third"))
    await api.store.compact(await api.store.revision())
    reported.is_ready = True
    body.push()
    assert reported.events[-1][0] == "ERROR"
    assert json.loads(reported.chunks[-1])["object"]["code"] == 410
    assert reported.how_it_ended == "whole"


async def test_watches_end_whole_when_the_server_stops(api: ApiCaller) -> None:
    _, reported = await follow(api)
    api.resources.end_watches()
    await settle()
    assert reported.how_it_ended == "whole"
    assert api.resources.open_watches == 0


async def test_nothing_is_kept_of_a_client_that_has_gone(api: ApiCaller) -> None:
    body, reported = await follow(api)
    assert api.resources.open_watches == 1
    body.close()
    await api.post(CONFIG_MAPS, config_map("second"))
    await settle()
    assert (api.resources.open_watches, reported.events, reported.how_it_ended) == (0, [("ADDED", "first")], "")


async def test_a_watch_whose_time_is_over_ends_with_all_events_and_a_bookmark(
    api: ApiCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = _Timers(monkeypatch)
    _, reported = await follow(api, {"timeoutSeconds": "30", "allowWatchBookmarks": "true"})
    await api.post(CONFIG_MAPS, config_map("second"))
    api.clock.advance(31)
    timers.due()
    assert [kind for kind, _ in reported.events] == ["ADDED", "ADDED", "BOOKMARK"]
    version = json.loads(reported.chunks[-1].splitlines()[-1])["object"]["metadata"]["resourceVersion"]
    assert int(version) == await api.store.revision()
    assert reported.how_it_ended == "whole"


async def test_a_watch_without_news_is_sent_bookmarks_if_it_wants_them(
    api: ApiCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = _Timers(monkeypatch)
    _, reported = await follow(api, {"timeoutSeconds": "300", "allowWatchBookmarks": "true"})
    for _ in range(2):
        api.clock.advance(61)
        timers.due()
    assert [kind for kind, _ in reported.events] == ["ADDED", "BOOKMARK", "BOOKMARK"]
    assert reported.how_it_ended == ""


async def test_a_mistake_breaks_one_watch_off_and_leaves_the_others_alone(
    api: ApiCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    (broken, reported), (_, other) = await follow(api), await follow(api)

    class Failing:  # as no store does today
        def take(self, limit: int) -> Any:
            raise StorageFailed("the disk has gone")

        def close(self) -> None: ...

    monkeypatch.setattr(broken, "_watcher", Failing())
    with pytest.raises(StorageFailed):
        broken.push()
    assert reported.how_it_ended == "broken off"
    await api.post(CONFIG_MAPS, config_map("second"))
    await settle()
    assert other.events[-1] == ("ADDED", "second")


class _Timers:
    """The timers of watches, which go off when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._waiting: list[Any] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", self._call_later)

    def _call_later(self, seconds: float, callback: Any, *arguments: Any) -> Any:
        assert seconds >= 0
        self._waiting.append(callback)
        return type("Timer", (), {"cancel": lambda _: None})()

    def due(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
