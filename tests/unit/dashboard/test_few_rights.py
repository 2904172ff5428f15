"""A user who may not read everything sees a note about it on every view, instead of an empty page."""

import re
from html import unescape
from pathlib import Path

import pytest

from dashboard_calls import Caller, shop
from live_dashboard import live_cluster, may
from mooring.advisor.snapshot import live
from mooring.api.core_v1 import Pod
from mooring.testing.builders import pod

pytestmark = pytest.mark.req("D.1")
VIEWS = ("", "pending", "pods", "pods/default/huge", "nodes", "what-if", "versions", "expressions")
NO_NODES = 'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope'
NO_PODS = 'pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope'


async def _text(page: Caller, path: str, **query: str) -> str:
    answer = await page.get(path, **query)
    return unescape(re.sub(r"<[^>]+>", " ", answer.text))


async def test_a_role_in_one_namespace_shows_that_one_and_says_what_is_missing(tmp_path: Path) -> None:
    elsewhere = pod("secret-plan", namespace="kube-system", cpu="1")
    async with live_cluster(tmp_path, [*shop(), elsewhere]) as cluster:
        jane = await cluster.user_with(may("get list watch", "pods"), namespace="default")
        async with cluster.dashboard(jane) as page:
            for path in VIEWS:
                text = await _text(page, path)
                assert "answers may be incomplete: nodes, pods outside of the namespace default" in text, path
                assert "secret-plan" not in text
            shown = {path: await _text(page, path) for path in (*VIEWS, "pods/default/web-0", "nodes/east-0")}
            eviction = await _text(page, "nodes/east-0/eviction", key="a", effect="NoExecute")
            helps = await _text(page, "pending/help/pod/default/huge")
            tried = await _text(page, "expressions/try", kind="node", expression="'a' in node.labels")
            audit = await _text(page, "versions/audit")
            simulated = (await page.post("what-if/run", scenario="")).text
            figures = await page.data()
    assert (figures["running"], figures["pending"]) == (8, 3)
    assert re.search(r"\?\s+nodes", shown[""])
    for text in (shown[""], shown["nodes"], shown["nodes/east-0"], shown["pods/default/huge"], eviction, tried):
        assert NO_NODES in text
    assert "you may not read nodes" in helps
    assert "in the scheduler's own words: you may not read nodes" in shown["pending"]
    assert "No node has a taint" not in shown["pods/default/huge"]
    assert "the pod runs on node east-0; why there cannot be said" in shown["pods/default/web-0"]
    assert "0 of 0" not in tried
    assert "not looked at, for want of rights" in audit
    assert NO_NODES in unescape(simulated)


async def test_no_user_without_rights_is_shown_that_nothing_is_there(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, shop()) as cluster:
        jane = await cluster.user_with(may("get", "services"))
        async with cluster.dashboard(jane) as page:
            shown = {path: await _text(page, path) for path in VIEWS if path != "pods/default/huge"}
            answer = await page.get("pods/default/huge")
    for path in ("", "pending", "pods"):
        assert NO_PODS in shown[path]
    assert re.search(r"\?\s+pods with a node", shown[""])
    assert "Every pod runs" not in shown["pending"]
    assert NO_NODES in shown["nodes"]
    assert answer.status == 404
    assert NO_PODS in unescape(answer.text)


async def test_commands_read_the_same_namespace(tmp_path: Path) -> None:
    elsewhere = pod("secret-plan", namespace="kube-system", cpu="1")
    async with live_cluster(tmp_path, [*shop(), elsewhere]) as cluster:
        jane = await cluster.user_with(may("get list watch", "pods"), namespace="default")
        async with cluster.client_of(jane) as client:
            found = await live(client, kinds=[Pod], namespace="default")
            nothing = await live(client, kinds=[Pod], namespace="kube-system")
    assert {each.metadata.namespace for each in found.all(Pod)} == {"default"}
    assert found.forbidden["pods"] == f"not allowed outside of the namespace default: {NO_PODS}"
    assert not found.why_unread("pods")
    assert nothing.why_unread("pods") == f"not allowed: {NO_PODS}"
