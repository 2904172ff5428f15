"""Changes from a page: there only with `--allow-changes`, shown before they are made, and exactly what was shown."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner

from dashboard_calls import CHANGING_TOKEN, OWN, PORT, dashboard, dumped, shop
from live_dashboard import LiveCluster, live_cluster, may
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Node, Pod
from mooring.api.errors import NotFound
from mooring.cli.main import mooring
from mooring.client import PatchType
from mooring.dashboard.gate import CHANGING

pytestmark = pytest.mark.req("D.1")
HOSTILE = "<img src=x onerror=alert(1)>"


async def _node(cluster: LiveCluster, name: str) -> Node:
    return await cluster.client.get(Node, name)


def _taints(node: Node) -> list[str]:
    return [f"{each.key}={each.value}:{each.effect}" for each in node.spec.taints]


# -- what can be changed


async def test_a_node_is_cordoned_after_its_command_was_shown(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, shop()) as cluster, cluster.dashboard(allow_changes=True) as page:
        shown = (await page.change(what="cordon", node="east-0")).json
        assert shown["objects"] == ["node east-0"]
        assert shown["commands"] == ["kubectl cordon east-0"]
        assert not (await _node(cluster, "east-0")).spec.unschedulable  # shown, not done
        done = (await page.change(shown["name"])).json
        assert done == {"commands": ["kubectl cordon east-0"], "problem": ""}
        assert (await _node(cluster, "east-0")).spec.unschedulable
        seen = await page.until("nodes/east-0", lambda found: found["cordoned"])
        assert seen["cordoned"]
        lately = [line[1] for line in (await page.data())["lately"]]
        assert "from this dashboard: cordon node east-0" in lately
        back = (await page.change(what="uncordon", node="east-0")).json
        await page.change(back["name"])
        assert not (await _node(cluster, "east-0")).spec.unschedulable


async def test_a_taint_is_added_changed_and_taken_away(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, shop()) as cluster, cluster.dashboard(allow_changes=True) as page:
        taint = {"node": "west-0", "key": "sla", "effect": "NoExecute"}
        shown = (await page.change(what="taint", value="890", **taint)).json
        assert shown["commands"] == ["kubectl taint node west-0 sla=890:NoExecute --overwrite"]
        assert shown["caveat"] == "3 pods that may stay as things are would have to go"
        await page.change(shown["name"])
        assert _taints(await _node(cluster, "west-0")) == ["sla=890:NoExecute"]
        await page.until("nodes/west-0", lambda found: found["taints"][0]["value"] == "890")
        shown = (await page.change(what="taint", node="west-0", key="disk", value="", effect="NoSchedule")).json
        assert shown["commands"] == ["kubectl taint node west-0 disk:NoSchedule"]
        await page.change(shown["name"])
        assert _taints(await _node(cluster, "west-0")) == ["sla=890:NoExecute", "disk=:NoSchedule"]
        await page.until("nodes/west-0", lambda found: len(found["taints"]) == 2)
        shown = (await page.change(what="untaint", **taint)).json
        assert shown["commands"] == ["kubectl taint node west-0 sla:NoExecute-"]
        await page.change(shown["name"])
        assert _taints(await _node(cluster, "west-0")) == ["disk=:NoSchedule"]


async def test_a_pod_is_deleted(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, shop()) as cluster, cluster.dashboard(allow_changes=True) as page:
        shown = (await page.change(what="delete-pod", namespace="default", name="huge")).json
        assert shown["commands"] == ["kubectl delete -n default pod huge"]
        assert shown["caveat"] == "no controller creates it again: it is gone for good"
        assert (await page.change(shown["name"])).json["problem"] == ""
        with pytest.raises(NotFound):
            await cluster.client.get(Pod, "huge", "default")


@pytest.mark.req("D.3")
async def test_what_explain_found_is_done_as_it_was_suggested(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, shop()) as cluster, cluster.dashboard(allow_changes=True) as page:
        found = await page.data("pending/help/pod/default/new-kernel")
        labelling = next(each for each in found["suggestions"] if each["summary"].startswith("label node east"))
        wanted = {"kind": "pod", "namespace": "default", "name": "new-kernel", "summary": labelling["summary"]}
        shown = (await page.change(what="suggestion", **wanted)).json
        assert shown["commands"] == [change["command"] for change in labelling["changes"]]
        assert (await page.change(shown["name"])).json["problem"] == ""
        node = await _node(cluster, labelling["node"])
        assert f"kernel={node.metadata.labels['kernel']}" in shown["commands"][0]
        again = await page.until("pending/help/pod/default/new-kernel", lambda found: found["state"] == "Schedulable")
        assert again["node"] == labelling["node"]


async def test_what_takes_several_steps_is_left_to_people(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, shop()) as cluster, cluster.dashboard(allow_changes=True) as page:
        found = (await page.data("pending/help/pod/default/new-kernel"))["suggestions"]
        several = [each for each in found if "| kubectl replace" in each["changes"][0]["command"]]
        assert several
        wanted = {"kind": "pod", "namespace": "default", "name": "new-kernel", "summary": several[0]["summary"]}
        assert (await page.change(what="suggestion", **wanted)).status == 404
        buttons = (await page.get("pending/help/pod/default/new-kernel")).text.count("Do it …")
        assert 0 < buttons < len(found)


# -- what goes wrong


async def test_an_object_that_changed_since_is_left_alone(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, shop()) as cluster, cluster.dashboard(allow_changes=True) as page:
        shown = (await page.change(what="untaint", node="west-0", key="sla", effect="NoExecute")).json
        other = {"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}}
        await cluster.client.patch(Node, "west-0", other, type=PatchType.MERGE)
        done = (await page.change(shown["name"])).json
        assert done["commands"] == []
        assert "node west-0 has changed since this was shown" in done["problem"]
        assert _taints(await _node(cluster, "west-0")) == ["other=:NoSchedule"]


async def test_a_change_is_made_once(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, shop()) as cluster, cluster.dashboard(allow_changes=True) as page:
        shown = (await page.change(what="cordon", node="east-0")).json
        await page.change(shown["name"])
        again = await page.change(shown["name"])
        assert again.status == 404
        assert "nothing was done" in again.text


async def test_a_refusal_is_shown_in_the_words_of_the_api_server(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, shop()) as cluster:
        jane = await cluster.user_with(may("get list watch", "nodes pods"))
        async with cluster.dashboard(jane, allow_changes=True) as page:
            shown = (await page.change(what="cordon", node="east-0")).json
            done = (await page.change(shown["name"])).json
    assert done["commands"] == []
    assert done["problem"] == (
        'nodes "east-0" is forbidden: User "jane" cannot patch resource "nodes" in API group "" at the cluster scope'
    )


async def test_what_the_server_finds_invalid_is_shown(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, shop()) as cluster, cluster.dashboard(allow_changes=True) as page:
        shown = (await page.change(what="taint", node="east-0", key="a b", value="", effect="NoSchedule")).json
        done = (await page.change(shown["name"])).json
    assert "taints[0].key: Invalid value" in done["problem"]


@dataclass(frozen=True)
class Nonsense:
    name: str
    status: int
    form: dict[str, str]


@pytest.mark.parametrize(
    "case",
    [
        Nonsense("no change at all", 400, {}),
        Nonsense("a change that nobody knows", 400, {"what": "explode"}),
        Nonsense("a node that is not there", 404, {"what": "cordon", "node": "mars"}),
        Nonsense("a taint without a key", 400, {"what": "taint", "node": "east-0", "effect": "NoExecute"}),
        Nonsense("a pod that is not there", 404, {"what": "delete-pod", "namespace": "a", "name": "b"}),
        Nonsense("a suggestion for nobody", 404, {"what": "suggestion", "namespace": "a", "name": "b"}),
        Nonsense(
            "a suggestion that nobody made",
            404,
            {"what": "suggestion", "namespace": "default", "name": "huge", "summary": "delete everything"},
        ),
    ],
    ids=lambda case: case.name,
)
async def test_nonsense_is_refused_in_a_sentence(case: Nonsense) -> None:
    async with dashboard(Snapshot("the test", shop()), changing=CHANGING_TOKEN) as page:
        answer = await page.change(**case.form)
    assert answer.status == case.status, answer.text


# -- attacks


@dataclass(frozen=True)
class Attack:
    name: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    without: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Attack("without the header of own pages", 403, without=CHANGING),
        Attack("with a header that is guessed", 403, {CHANGING: "guess"}),
        Attack("with the token of the address in its place", 403, {CHANGING: "a-token-of-tests"}),
        Attack("without an origin", 403, without="origin"),
        Attack("by a page of another site", 403, {"origin": "http://evil.example"}),
        Attack("by a page of another port", 403, {"origin": "http://127.0.0.1:1"}),
        Attack("by a page without an origin", 403, {"origin": "null"}),
        Attack("by a form of another site", 403, {"sec-fetch-site": "cross-site"}),
        Attack("by a name that was pointed here", 421, {"host": f"evil.example:{PORT}"}),
    ],
    ids=lambda case: case.name,
)
async def test_no_other_user_changes_the_cluster(case: Attack) -> None:
    headers = {name: value for name, value in {**OWN, **case.headers}.items() if name != case.without}
    async with dashboard(Snapshot("the test", shop()), changing=CHANGING_TOKEN) as page:
        shown = (await page.change(what="cordon", node="east-0")).json
        sent: list[tuple[str, dict[str, str]]] = [("", {"what": "cordon", "node": "east-0"}), (shown["name"], {})]
        for path, form in sent:
            answer = await page.change_with(headers, path, form)
            assert answer.status == case.status, answer.text
        assert page.cluster.proposals.pop(shown["name"]) is not None  # it still waits to be confirmed


async def test_a_change_is_not_made_by_following_a_link() -> None:
    async with dashboard(Snapshot("the test", shop()), changing=CHANGING_TOKEN) as page:
        shown = (await page.change(what="cordon", node="east-0")).json
        answer = await page.send("GET", f"/a-token-of-tests/changes/{shown['name']}", headers=OWN)
        assert answer.status == 404
        assert page.cluster.proposals.pop(shown["name"]) is not None


@pytest.mark.parametrize(
    "path", ["", "pending", "pods/default/huge", "nodes/west-0", "pending/help/pod/default/new-kernel"]
)
async def test_without_the_flag_there_is_no_button_and_no_address(path: str) -> None:
    async with dashboard(Snapshot("the test", shop())) as page:
        text = (await page.get(path)).text
        answer = await page.change(what="cordon", node="west-0")
    assert "/changes" not in text
    assert "<dialog" not in text
    assert answer.status == 404


async def test_what_a_change_shows_is_escaped(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, shop()) as cluster, cluster.dashboard(allow_changes=True) as page:
        form = urlencode({"what": "taint", "node": "east-0", "key": HOSTILE, "value": HOSTILE, "effect": HOSTILE})
        shown = await page.send("POST", "/a-token-of-tests/changes", headers=OWN, body=form.encode())
        name = shown.text.partition("/changes/")[2].partition('"')[0]
        refused = await page.send("POST", f"/a-token-of-tests/changes/{name}", headers=OWN)
    assert "Really give node east-0" in shown.text
    assert "Unsupported value" in refused.text
    assert "<img" not in shown.text + refused.text


def test_a_dump_cannot_be_changed(tmp_path: Path) -> None:
    path = dumped(shop(), tmp_path / "dump.json")
    run = CliRunner().invoke(mooring, ["dashboard", "--from", str(path), "--allow-changes"])
    assert run.exit_code == 2
    assert "cannot be changed" in run.output
