"""Objects that differ in words of their own are judged a few times, and come out as if each had been, byte for byte."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_caller import CONFIG_MAPS, config_map
from asgi_calls import ADMIN, Caller, running
from custom_api import CRON_TABS, DEFINITIONS, CustomApi, cron_tab, custom_api, definition
from mooring.apiserver.registry.context import Call
from mooring.apiserver.registry.like_objects import Found, LikeObjects
from mooring.apiserver.registry.parameters import WriteOptions
from policy_objects import create, validating
from quota_objects import QUOTAS, counted, counting, quota

pytestmark = pytest.mark.req("S.4")
Tree = dict[str, Any]
Made = Callable[[int], Tree]
_MADE_UP = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|made-up-[a-z0-9]{5}")
"""Ids and names."""
_JUDGED = "mooring.apiserver.registry.writing.finish_create"


class Foretelling(LikeObjects):
    """Counts what was not judged."""

    told = 0

    async def find(self, call: Call, options: WriteOptions) -> Found | None:
        found = await super().find(call, options)
        self.told += found is not None
        return found


class Judging(LikeObjects):
    """Lets all be judged."""

    async def find(self, call: Call, options: WriteOptions) -> Found | None:
        return None


def _text(tree: Tree) -> bytes:
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")


async def _answers(
    url: str, texts: Sequence[bytes], schema: Tree | None, version: Tree, likes: type[LikeObjects]
) -> tuple[list[tuple[int, bytes, list[str]]], LikeObjects]:
    async with custom_api() as api:
        if schema is not None:
            await api.define(definition(schema=schema, **version))
        made = _watched(api, likes)
        answers = [await api.post(url, text) for text in texts]
        return [(each.code, _MADE_UP.sub(b"made up", each.text), each.warnings) for each in answers], made


def _watched(api: CustomApi, likes: type[LikeObjects]) -> Any:
    made = api.resources._together._writing._like_objects = likes(api.resources.context)
    return made


async def _compared(url: str, texts: Sequence[bytes], schema: Tree | None = None, **version: Any) -> tuple[int, ...]:
    """The codes of the answers, which are those of a server that judges all, and how many were not judged."""
    found, foretelling = await _answers(url, texts, schema, version, Foretelling)
    expected, _ = await _answers(url, texts, schema, version, Judging)
    assert found == expected
    return getattr(foretelling, "told"), *(code for code, *_ in found)  # noqa: B009 - of the subclass


# -- ConfigMaps


def _map(**differ: Callable[[int], str]) -> Made:
    """ConfigMaps that are the same but for what is given."""

    def made(number: int) -> Tree:
        words = {name: said(number) for name, said in differ.items()}
        metadata = {"labels": {"app": words.pop("label", "web")}, "annotations": {"a": words.pop("annotation", "x")}}
        tree = config_map(words.pop("name", f"map-{number}"), key=words.pop("value", "1"), other="100 %b %")
        tree["metadata"] |= metadata
        return {**tree, **words}

    return made


def _valued(count: int) -> Made:
    """ConfigMaps with as many values, which differ."""
    return lambda number: config_map(f"m{number}") | {"data": {f"k{each}": f"{number}" for each in range(count)}}


@dataclass(frozen=True)
class Case:
    id: str
    made: Made
    told: int = 5
    """How many are not judged."""
    codes: Sequence[int] = (201,) * 8
    schema: Tree = field(default_factory=dict)
    version: Tree = field(default_factory=dict)
    count: int = 8


def _nth(number: int, word: str) -> Callable[[int], str]:
    """A word that only one says."""
    return lambda each: word if each == number else "a"


REFUSED_LAST = (*[201] * 7, 422)
MAPS = [
    Case("other names", _map()),
    Case("other values", _map(value=lambda number: f"v{number}: {{}} [1,2] %s %b %%")),
    Case("the value of one is the name of another", _map(value=lambda number: f"map-{number + 1}")),
    Case("no value", _map(value=lambda number: "x" * (number % 2))),
    Case("a hundred values", _valued(100)),
    Case("too many values", _valued(200), 0),
    Case("other labels", _map(label=lambda number: f"app-{number}")),
    Case("a wrong label", _map(label=_nth(7, "a b")), 4, REFUSED_LAST),
    Case("other annotations", _map(annotation=lambda number: f"{number}")),
    Case("a wrong name", _map(name=lambda number: f"Map-{number}" if number == 7 else f"m{number}"), 4, REFUSED_LAST),
    Case("a name that is too long", _map(name=lambda number: "m" * (247 + number)), 4, REFUSED_LAST),
    Case("a name that is taken", _map(name=lambda number: f"m{number % 7}"), 5, (*[201] * 7, 409)),
    Case("escapes", _map(value=lambda number: f'"{number}"\n\\"{number}\\\\')),
    Case("rare escapes", _map(value=lambda number: f"{number}\x01"), 0),
    Case("a label with an escape", _map(label=_nth(7, '"')), 4, REFUSED_LAST),
    Case("letters of all kinds", _map(value=lambda number: f"{number}ü😀")),
    Case("half a letter", _map(value=_nth(7, "\ud800")), 4, (*[201] * 7, 400)),
    Case("another kind in the text", _map(kind=_nth(7, "Pod")), 0, (400,) * 7 + (400,)),
    Case("a namespace in the text", lambda n: _with(config_map(f"m{n}", k="v"), namespace="default")),
    Case("another's namespace", lambda n: _with(config_map(f"m{n}", k="v"), namespace="other"), 0, (400,) * 8),
    Case("names that are made up", lambda _: _with(config_map("", k="v"), generateName="made-up-")),
    Case("a version of what is not there", lambda n: _with(config_map(f"m{n}"), resourceVersion="7"), 0, (500,) * 8),
    Case("a uid", lambda n: _with(config_map(f"m{n}", k=f"{n}"), uid="7")),
    Case("a time", lambda n: _with(config_map(f"m{n}", k=f"{n}"), creationTimestamp="2020-01-01T00:00:00Z")),
    Case("owners", lambda n: _with(config_map(f"m{n}"), ownerReferences=[_owner("x")])),
    Case("other owners", lambda n: _with(config_map(f"m{n}"), ownerReferences=[_owner(f"x{n}")]), 0),
    Case("unknown fields", lambda n: {**config_map(f"m{n}"), "more": "x"}, 0),
    Case("bytes", lambda n: {**config_map(f"m{n}"), "binaryData": {"k": "eA=="}}),
    Case("what is no bytes", lambda n: {**config_map(f"m{n}"), "binaryData": {"k": "eA==" if n < 7 else "="}}, 4,
         (*[201] * 7, 400)),
]  # fmt: skip


def _with(tree: Tree, **metadata: Any) -> Tree:
    left = {name: value for name, value in tree["metadata"].items() if value}
    return {**tree, "metadata": {**left, **metadata}}


def _owner(name: str) -> Tree:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "1"}


@pytest.mark.parametrize("case", MAPS, ids=lambda case: case.id)
async def test_config_maps(case: Case) -> None:
    found = await _compared(CONFIG_MAPS, [_text(case.made(number)) for number in range(8)])
    assert found == (case.told, *case.codes)


async def test_a_field_that_is_there_twice() -> None:
    texts = [b'{"metadata":{"name":"m%d"},"data":{"k":"%d","k":"x"}}' % (each, each) for each in range(6)]
    assert (await _compared(CONFIG_MAPS, texts))[0] == 0


async def test_spaces_do_not_matter() -> None:
    texts = [json.dumps(config_map(f"m{each}", k=f"{each}")).encode() for each in range(8)]
    assert (await _compared(CONFIG_MAPS, texts))[0] == 5


async def test_a_line_break_at_the_end_does_not_matter() -> None:
    texts = [_text(config_map(f"m{each}", k=f"{each}")) + b"\n" * (each % 2) for each in range(8)]
    assert (await _compared(CONFIG_MAPS, texts))[0] == 5


async def test_line_breaks_in_between_are_not_looked_into() -> None:
    texts = [json.dumps(config_map(f"m{each}"), indent=1).encode() for each in range(8)]
    assert (await _compared(CONFIG_MAPS, texts))[0] == 0


@pytest.mark.parametrize(
    ("query", "told"), [("fieldManager=kubectl&fieldValidation=Strict", 5), ("pretty=true", 5), ("dryRun=All", 0)]
)
async def test_what_the_query_says(query: str, told: int) -> None:
    texts = [_text(config_map(f"m{each}")) for each in range(8)]
    assert await _compared(f"{CONFIG_MAPS}?{query}", texts) == (told, *[201] * 8)


# -- custom objects


def _schema(**spec: Tree) -> Tree:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}


def _tab(**spec: Callable[[int], Any]) -> Made:
    def made(number: int) -> Tree:
        tree = cron_tab(f"tab-{number}", **{name: said(number) for name, said in spec.items()})
        del tree["spec"]["cronSpec"]
        return tree

    return made


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
WHAT = {"what": lambda number: f"w{number}"}
COUNT = {"count": lambda number: number}
RULE = {"x-kubernetes-validations": [{"rule": "true"}]}
_ports: Tree = {"type": "array", "items": {"type": "object", "properties": {"name": TEXT, "port": NUMBER}}}
_by_name = {**_ports, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_by_name["items"] = {**_ports["items"], "required": ["name"]}


def _port(number: int) -> list[Tree]:
    return [{"name": f"p{number}", "port": 80 + number}, {"name": "fixed", "port": 1}]


CUSTOM = [
    Case("other texts", _tab(**WHAT), schema=_schema(what=TEXT)),
    Case("other numbers", _tab(**COUNT), schema=_schema(count=NUMBER)),
    Case("numbers at the end and before more", _tab(**COUNT, **WHAT), schema=_schema(what=TEXT, count=NUMBER)),
    Case("negative numbers", _tab(count=lambda n: -n), schema=_schema(count=NUMBER)),
    Case("a number that is not whole", _tab(count=lambda n: n + 0.5 if n == 7 else n), 4, REFUSED_LAST,
         schema=_schema(count=NUMBER)),
    Case("numbers that may be broken", _tab(count=lambda n: n + 0.5), 0, schema=_schema(count={"type": "number"})),
    Case("a large number", _tab(count=lambda n: 2**62 if n == 7 else n), 4, schema=_schema(count=NUMBER)),
    Case("a text for a number", _tab(count=lambda n: "7" if n == 7 else n), 4, REFUSED_LAST,
         schema=_schema(count=NUMBER)),
    Case("a number that is too large", _tab(**COUNT), 4, REFUSED_LAST, schema=_schema(count={**NUMBER, "maximum": 6})),
    Case("a text that is too long", _tab(what=lambda n: "x" * n), 4, REFUSED_LAST,
         schema=_schema(what={**TEXT, "maxLength": 6})),
    Case("escapes that make a text long", _tab(what=lambda n: '"' * n), 0, REFUSED_LAST,
         schema=_schema(what={**TEXT, "maxLength": 6})),
    Case("letters that are longer in bytes", _tab(what=lambda n: "ü" * n), 4, REFUSED_LAST,
         schema=_schema(what={**TEXT, "maxLength": 6})),
    Case("a pattern", _tab(**WHAT), 4, REFUSED_LAST, schema=_schema(what={**TEXT, "pattern": "^w[0-6]$"})),
    Case("a format", _tab(what=lambda n: f"10.0.0.{n}" if n < 7 else "x"), 4, REFUSED_LAST,
         schema=_schema(what={**TEXT, "format": "ipv4"})),
    Case("more numbers than are looked at", _tab(all=lambda n: [{"a": n}] * 65), 0, schema=_schema(
        all={"type": "array", "items": {"type": "object", "properties": {"a": NUMBER}}})),
    Case("more texts than are remembered", _tab(what=lambda n: f"w{n}"), 17, (*[201] * 20, 422), count=21,
         schema=_schema(what={**TEXT, "pattern": "^w1?[0-9]$"})),
    Case("a choice", _tab(what=lambda n: "a" if n < 7 else "b"), 4, REFUSED_LAST,
         schema=_schema(what={**TEXT, "enum": ["a"]})),
    Case("alternatives", _tab(**WHAT), 0, schema=_schema(what={**TEXT, "anyOf": [{"minLength": 1}]})),
    Case("a rule for the text", _tab(**WHAT), 0, schema=_schema(what={**TEXT, **RULE, "maxLength": 9})),
    Case("a rule for what it is in", _tab(**WHAT), 0, schema=_schema(what=TEXT) | {"properties": {
        "spec": {**_schema(what=TEXT)["properties"]["spec"], **RULE}}}),
    Case("a rule for the whole", _tab(), 0, schema=_schema() | RULE),
    Case("a rule for something else", _tab(**WHAT, other=lambda _: "x"),
         schema=_schema(what=TEXT, other={**TEXT, **RULE, "maxLength": 9})),
    Case("a schema for the name", _tab(), 0, (*[201] * 7, 422), schema=_schema() | {"properties": {
        "metadata": {"type": "object", "properties": {"name": {**TEXT, "pattern": "^tab-[0-6]$"}}}}}),
    Case("a schema for the kind", lambda n: {**_tab()(n), "kind": "CronTab" if n < 7 else "Other"}, 4,
         REFUSED_LAST, schema={"type": "object", "properties": {
             "kind": TEXT, "apiVersion": TEXT, "metadata": {"type": "object"}, "spec": {"type": "object"}}}),
    Case("lists", _tab(ports=_port), schema=_schema(ports=_ports)),
    Case("lists of texts", _tab(all=lambda n: [f"a{n}", "b"]), schema=_schema(all={"type": "array", "items": TEXT})),
    Case("lists with keys", _tab(ports=_port), 0, schema=_schema(ports=_by_name)),
    Case("sets", _tab(all=lambda n: [f"a{n}", "a7"]), 0, (*[201] * 7, 422),
         schema=_schema(all={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"})),
    Case("a number or a text", _tab(what=lambda n: n if n % 2 else f"{n}"), 0,
         schema=_schema(what={"x-kubernetes-int-or-string": True})),
    Case("a map", _tab(map=lambda n: {"a": f"{n}"}), schema=_schema(map={"type": "object",
                                                                       "additionalProperties": TEXT})),
    Case("what has no schema", _tab(**WHAT), 0, schema=_schema() | {"x-kubernetes-preserve-unknown-fields": True,
         "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}),
    Case("what is pruned", _tab(**WHAT, more=lambda _: "x"), 0, schema=_schema(what=TEXT)),
    Case("defaults", _tab(**WHAT), schema=_schema(what=TEXT, more={**TEXT, "default": "w1"})),
    Case("a status, which is dropped", lambda n: {**_tab()(n), "status": {"a": "x"}}, version={
        "subresources": {"status": {}}}, schema=_schema() | {"properties": {
            "spec": {"type": "object"}, "status": {"type": "object", "properties": {"a": TEXT}}}}),
    Case("a scale", _tab(**COUNT), 0, schema={"type": "object", "properties": {
        part: {"type": "object", "properties": {"count": NUMBER}} for part in ("spec", "status")}}, version={
            "subresources": {"scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"}}}),
]  # fmt: skip


@pytest.mark.parametrize("case", CUSTOM, ids=lambda case: case.id)
async def test_custom_objects(case: Case) -> None:
    texts = [_text(case.made(number)) for number in range(case.count)]
    assert await _compared(CRON_TABS, texts, case.schema, **case.version) == (case.told, *case.codes)


# -- what else counts


async def _learned(api: CustomApi, url: str, made: Made) -> None:
    """Three that are judged, and one that is not."""
    foretelling = _watched(api, Foretelling)
    assert [(await api.post(url, made(number))).code for number in range(100, 104)] == [201] * 4
    assert foretelling.told == 1


async def test_nothing_is_judged_from_the_fourth_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with custom_api() as api:
        await _learned(api, CONFIG_MAPS, _map())
        monkeypatch.setattr(_JUDGED, None)
        assert (await api.post(CONFIG_MAPS, _map()(7))).code == 201
        assert (await api.get(f"{CONFIG_MAPS}/map-7")).body["data"] == {"key": "1", "other": "100 %b %"}


async def test_objects_of_no_namespace() -> None:
    async with custom_api() as api:
        everywhere = definition(schema=_schema(what=TEXT))
        everywhere["spec"]["scope"] = "Cluster"
        await api.define(everywhere)
        await _learned(api, CRON_TABS.replace("/namespaces/default", ""), _tab(**WHAT))


@pytest.mark.parametrize("is_one_free", [True, False])
async def test_made_up_names_that_are_taken(is_one_free: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with custom_api() as api:
        await _learned(api, CONFIG_MAPS, lambda _: _with(config_map("", k="v"), generateName="m-"))
        await api.post(CONFIG_MAPS, config_map("taken"))
        names = iter(["taken", "taken", "free" if is_one_free else "taken", *["taken"] * 5])
        monkeypatch.setattr("mooring.apiserver.registry.like_objects.made_up_name", lambda _: next(names))
        answer = await api.post(CONFIG_MAPS, _with(config_map("", k="v"), generateName="m-"))
        if is_one_free:
            assert (answer.code, answer.body["metadata"]["name"]) == (201, "free")
        else:
            assert (answer.code, answer.body["details"]["retryAfterSeconds"]) == (409, 1)


async def test_the_time_is_that_of_the_request() -> None:
    async with custom_api() as api:
        await _learned(api, CONFIG_MAPS, _map())
        api.clock.advance(100)
        metadata = (await api.post(CONFIG_MAPS, _map()(7))).body["metadata"]
        assert {metadata["creationTimestamp"], metadata["managedFields"][0]["time"]} == {"2026-01-01T00:01:40Z"}


async def test_another_sender_is_another_matter() -> None:
    async with custom_api() as api:
        await _learned(api, CONFIG_MAPS, _map())
        answer = await api.post(CONFIG_MAPS, _map()(7), agent="other/1")
        assert answer.body["metadata"]["managedFields"][0]["manager"] == "other"


async def test_a_namespace_that_ends_counts_at_once() -> None:
    async with custom_api() as api:
        await api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        maps = CONFIG_MAPS.replace("default", "shop")
        await _learned(api, maps, _map())
        await api.delete("/api/v1/namespaces/shop")
        assert (await api.post(maps, _map()(7))).code == 403


async def test_a_quota_counts_at_once() -> None:
    async with custom_api() as api:
        await _learned(api, CONFIG_MAPS, _map())
        async with counting(api):
            await api.post(QUOTAS, quota({"configmaps": "1"}))
            await counted(api)
            assert (await api.post(CONFIG_MAPS, _map()(7))).code == 403


async def test_a_definition_that_changes_counts_at_once() -> None:
    async with custom_api() as api:
        await api.define(definition(schema=_schema(what=TEXT)))
        await _learned(api, CRON_TABS, _tab(**WHAT))
        there = (await api.get(f"{DEFINITIONS}/crontabs.stable.example.com")).body
        short = definition(schema=_schema(what={**TEXT, "maxLength": 1}))
        short["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
        assert (await api.put(f"{DEFINITIONS}/crontabs.stable.example.com", short)).code == 200
        assert (await api.post(CRON_TABS, _tab(**WHAT)(7))).code == 422


def test_a_policy_that_comes_later_counts_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path) as server:
            call = Caller(server.app, ADMIN)
            for number in range(5):
                assert (await call("POST", CONFIG_MAPS, _map()(number))).status == 201
            await create(call, *validating("p", "object.metadata.name != 'map-7'"))
            assert [(await call("POST", CONFIG_MAPS, _map()(number))).status for number in (6, 7)] == [201, 422]

    asyncio.run(play())


# -- whatever is written

_words = st.sampled_from(["", "a", "map-1", "1", "x" * 70, "A b", "a:b,c", "{}", '"', "\\n", "ü", "%b", "null"])
_odd = st.one_of(_words, st.integers(-3, 3), st.booleans(), st.none(), st.floats(-2, 2), st.just(10**15))
_texts, _numbers = ("a", "b", "", 'a"', "ü", "%s"), (0, 1, 7, 10**14)
_LEAVES: list[tuple[Tree, tuple[Any, ...]]] = [
    (TEXT, _texts), (NUMBER, (-1, *_numbers)), ({"type": "number"}, (0, 1.5, 2)), ({"type": "boolean"}, (True, False)),
    ({**TEXT, "maxLength": 3}, _texts), ({**NUMBER, "minimum": 0}, _numbers), ({**TEXT, "pattern": "^a"}, ("a", "ab")),
    ({**TEXT, "enum": ["a", "1"]}, ("a", "1")), ({**TEXT, "nullable": True}, ("a", "b", None)),
    ({**TEXT, "default": "d"}, _texts), ({"x-kubernetes-int-or-string": True}, ("a", 1)),
    ({**NUMBER, "format": "int32"}, (0, 5)), ({"x-kubernetes-preserve-unknown-fields": True}, ("a", 1, [1])),
]  # fmt: skip
"""Schemas, and values that they allow."""


@st.composite
def _value(draw: st.DrawFn, allowed: Sequence[Any]) -> Any:
    """Nearly always one that is allowed."""
    return draw(_odd) if draw(st.integers(0, 15)) == 15 else draw(st.sampled_from(allowed))


@st.composite
def _series(draw: st.DrawFn) -> tuple[Tree, list[bytes]]:
    """A schema, and objects that are the same but for some of their values."""
    leaves = draw(st.dictionaries(st.sampled_from("abc"), st.sampled_from(_LEAVES), max_size=3))
    items, listed = draw(st.sampled_from([(schema, allowed) for schema, allowed in _LEAVES[:6]]))
    each: Tree = {"type": "array", "items": items, "x-kubernetes-list-type": draw(st.sampled_from(["atomic", "set"]))}
    schema = _schema(**{name: leaf for name, (leaf, _) in leaves.items()}, list=each)
    same = {name: draw(_value(allowed)) for name, (_, allowed) in leaves.items()}
    same["list"] = [draw(_value(listed))]
    differ = draw(st.sets(st.sampled_from([*leaves, "list"])))
    texts = []
    for number in range(7):
        spec = same | {name: draw(_value(allowed)) for name, (_, allowed) in leaves.items() if name in differ}
        if "list" in differ:
            spec["list"] = [draw(_value(listed)), *same["list"]]
        texts.append(_text({**cron_tab(draw(_value([f"tab-{number}"]))), "spec": spec}))
    return schema, texts


@settings(max_examples=60, deadline=None)
@given(_series())
def test_whatever_custom_objects_say(series: tuple[Tree, list[bytes]]) -> None:
    schema, texts = series
    asyncio.run(_compared(CRON_TABS, texts, schema))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_config_maps_say(data: st.DataObject) -> None:
    draw = data.draw
    keys = draw(st.lists(st.sampled_from(["k", "l", "m.n", "a_b"]), unique=True, max_size=3))
    texts = []
    for number in range(7):
        label = draw(_value(["a", "b", ""]))
        tree = config_map(draw(_value([f"m{number}"])), {"app": label}, **{key: draw(_words) for key in keys})
        texts.append(_text(tree))
    asyncio.run(_compared(CONFIG_MAPS, texts))
