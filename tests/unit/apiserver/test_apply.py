"""Server-side apply: who owns which field, conflicts, and what goes when it is no longer applied."""

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_caller import CONFIG_MAPS, DEPLOYMENTS, PODS, ApiCaller, config_map, deployment, pod
from mooring.api.core_v1 import Pod
from mooring.apiserver.registry.apply import field_set
from mooring.apiserver.registry.apply.comparison import collect_fields, compare, merge, prune
from mooring.apiserver.registry.apply.field_set import difference, intersection, paths, union
from mooring.apiserver.registry.patch.schema import schema_of

pytestmark = pytest.mark.req("S.1")

SETTINGS = f"{CONFIG_MAPS}/settings"


def owners(body: dict[str, Any]) -> dict[str, list[str]]:
    """Who owns what: `{"kubectl Update": [".data.a"]}`."""
    found = {}
    for entry in body["metadata"].get("managedFields", []):
        subresource = f" {entry['subresource']}" if entry.get("subresource") else ""
        found[f"{entry['manager']} {entry['operation']}{subresource}"] = sorted(paths(entry["fieldsV1"]))
    return found


# -- sets of fields

ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
SETS = st.dictionaries(
    ELEMENTS,
    st.recursive(
        st.just({}),
        lambda inner: st.tuples(st.booleans(), st.dictionaries(ELEMENTS, inner, min_size=1, max_size=3)).map(
            lambda pair: {".": {}, **pair[1]} if pair[0] else pair[1]
        ),
        max_leaves=5,
    ),
    max_size=3,
)


@given(SETS, SETS)
@settings(max_examples=100)
def test_sets_of_fields_behave_like_sets(a: Any, b: Any) -> None:
    left, right = set(paths(a)), set(paths(b))
    assert set(paths(union(a, b))) == left | right
    assert set(paths(difference(a, b))) == left - right
    assert set(paths(intersection(a, b))) == left & right


def test_paths_are_shown_as_kubernetes_does() -> None:
    fields = {
        "f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}}}, "f:set": {'v:"x"': {}}}
    }
    assert list(paths(fields)) == [
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.ports[port=80,protocol="TCP"].name',
        '.spec.set[="x"]',
    ]


# -- comparing, merging and pruning trees

NODE = schema_of(Pod)


def containers(*items: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(items)}}


@dataclass(frozen=True)
class Compared:
    id: str
    old: Any
    new: Any
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


COMPARED = [
    Compared("nothing", {"spec": {"hostname": "a"}}, {"spec": {"hostname": "a"}}),
    Compared("a value", {"spec": {"hostname": "a"}}, {"spec": {"hostname": "b"}}, changed=[".spec.hostname"]),
    Compared(
        "a map that is new, with itself",
        {"metadata": {}},
        {"metadata": {"labels": {"a": "1"}}},
        changed=[".metadata.labels", ".metadata.labels.a"],
    ),
    Compared(
        "a key of a map",
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"b": "1"}}},
        changed=[".metadata.labels.b"],
        removed=[".metadata.labels.a"],
    ),
    Compared(
        "an item of a keyed list",
        containers({"name": "a", "image": "1"}),
        containers({"name": "a", "image": "2"}, {"name": "b"}),
        changed=[
            '.spec.containers[name="a"].image',
            '.spec.containers[name="b"]',
            '.spec.containers[name="b"].name',
        ],
    ),
    Compared(
        "the order of a keyed list alone",
        containers({"name": "a"}, {"name": "b"}),
        containers({"name": "b"}, {"name": "a"}),
    ),
    Compared(
        "a list without keys, as a whole",
        {"spec": {"tolerations": [{"key": "a"}]}},
        {"spec": {"tolerations": []}},
        changed=[".spec.tolerations"],
    ),
    Compared(
        "an atomic struct, as a whole",
        {"spec": {"nodeSelector": {"a": "1"}}},
        {"spec": {"nodeSelector": {"a": "2"}}},
        changed=[".spec.nodeSelector"],
    ),
    Compared(
        "values of a set",
        {"metadata": {"finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b"]}},
        changed=['.metadata.finalizers[="b"]'],
        removed=['.metadata.finalizers[="a"]'],
    ),
    Compared(
        "keys that occur twice, as one",
        containers({"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
        containers({"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "3"}]}),
        changed=['.spec.containers[name="c"].env[name="A"]'],
    ),
    Compared(
        "a port by its number and default protocol",
        containers({"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        containers({"name": "c", "ports": [{"containerPort": 80, "name": "x"}]}),
        changed=['.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"].name'],
        removed=['.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"].protocol'],
    ),
]


@pytest.mark.parametrize("case", COMPARED, ids=lambda case: case.id)
def test_compared_is(case: Compared) -> None:
    change = compare(case.old, case.new, NODE)
    found = [sorted(paths(fields)) for fields in (change.changed, change.removed)]
    assert found == [case.changed, case.removed]


def test_a_configuration_names_leaves_items_and_keys() -> None:
    config = {"metadata": {"labels": {"a": "1"}}, **containers({"name": "c", "image": "i"})}
    assert sorted(paths(collect_fields(config, NODE))) == [
        ".metadata.labels.a",
        '.spec.containers[name="c"]',
        '.spec.containers[name="c"].image',
        '.spec.containers[name="c"].name',
    ]


@dataclass(frozen=True)
class Merged:
    id: str
    live: Any
    config: Any
    after: Any


MERGED = [
    Merged(
        "a field is added",
        {"spec": {"hostname": "a"}},
        {"spec": {"subdomain": "b"}},
        {"spec": {"hostname": "a", "subdomain": "b"}},
    ),
    Merged(
        "an item is changed and one is added",
        containers({"name": "a", "image": "1"}, {"name": "b"}),
        containers({"name": "a", "image": "2"}, {"name": "c"}),
        containers({"name": "a", "image": "2"}, {"name": "b"}, {"name": "c"}),
    ),
    Merged(
        "items come in the order of the configuration",
        containers({"name": "a"}, {"name": "b"}),
        containers({"name": "b"}, {"name": "a"}),
        containers({"name": "b"}, {"name": "a"}),
    ),
    Merged(
        "atomic lists are replaced",
        {"spec": {"tolerations": [{"key": "a"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
    ),
    Merged(
        "sets are joined",
        {"metadata": {"finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b", "a"]}},
        {"metadata": {"finalizers": ["a", "b"]}},
    ),
]


@pytest.mark.parametrize("case", MERGED, ids=lambda case: case.id)
def test_merged(case: Merged) -> None:
    live = copy.deepcopy(case.live)
    assert merge(live, case.config, NODE) == case.after
    assert live == case.live


def test_fields_without_an_owner_are_pruned() -> None:
    tree = {
        "metadata": {"labels": {"mine": "1", "theirs": "2"}},
        **containers({"name": "gone", "image": "i", "tty": True}, {"name": "shared", "image": "i", "tty": True}),
    }
    last = collect_fields(
        {
            "metadata": {"labels": {"mine": "1"}},
            **containers({"name": "gone", "image": "i"}, {"name": "shared", "image": "i"}),
        },
        NODE,
    )
    kept = collect_fields(
        {"metadata": {"labels": {"theirs": "2"}}, **containers({"name": "shared", "tty": True})}, NODE
    )
    assert prune(tree, NODE, last, kept) == {
        "metadata": {"labels": {"theirs": "2"}},
        **containers({"name": "shared", "tty": True}),
    }


# -- over the API


async def test_apply_creates_what_is_not_there(api: ApiCaller) -> None:
    answer = await api.apply(SETTINGS, config_map(a="1"))
    assert answer.code == 201
    assert owners(answer.body) == {"applier Apply": [".data.a"]}


async def test_apply_takes_yaml(api: ApiCaller) -> None:
    answer = await api.apply(SETTINGS, b"apiVersion: v1\nkind: ConfigMap\ndata:\n  a: '1'\n")
    assert (answer.code, answer.body["data"]) == (201, {"a": "1"})


async def test_applying_the_same_again_writes_nothing(api: ApiCaller) -> None:
    first = await api.apply(f"{DEPLOYMENTS}/web", deployment())
    api.clock.advance(60)
    again = await api.apply(f"{DEPLOYMENTS}/web", deployment())
    assert (again.code, again.body) == (200, first.body)


async def test_what_is_no_longer_applied_goes(api: ApiCaller) -> None:
    await api.apply(SETTINGS, config_map(a="1", b="2"))
    answer = await api.apply(SETTINGS, config_map(a="1"))
    assert answer.body["data"] == {"a": "1"}


async def test_what_others_own_stays(api: ApiCaller) -> None:
    await api.apply(SETTINGS, config_map(a="1", b="2"))
    await api.apply(SETTINGS, config_map(b="2", c="3"), "other")
    answer = await api.apply(SETTINGS, {"apiVersion": "v1", "kind": "ConfigMap"})
    assert answer.body["data"] == {"b": "2", "c": "3"}
    assert owners(answer.body) == {"other Apply": [".data.b", ".data.c"]}


async def test_a_field_of_another_manager_is_a_conflict(api: ApiCaller) -> None:
    await api.apply(SETTINGS, config_map(a="1"), "first")
    answer = await api.apply(SETTINGS, config_map(a="2"), "second")
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "first": .data.a'
    assert answer.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "first"', "field": ".data.a"}
    ]


async def test_several_conflicts_are_reported_by_manager(api: ApiCaller) -> None:
    await api.post(f"{CONFIG_MAPS}?fieldManager=creator", config_map(a="1", b="1"))
    answer = await api.apply(SETTINGS, config_map(a="2", b="2"))
    assert answer.message == ('Apply failed with 2 conflicts: conflicts with "creator" using v1:\n- .data.a\n- .data.b')


async def test_force_takes_fields_over(api: ApiCaller) -> None:
    await api.apply(SETTINGS, config_map(a="1", b="1"), "first")
    answer = await api.apply(SETTINGS, config_map(a="2"), "second", force=True)
    assert answer.body["data"] == {"a": "2", "b": "1"}
    assert owners(answer.body) == {"first Apply": [".data.b"], "second Apply": [".data.a"]}


async def test_an_empty_list_takes_a_field_from_its_manager(api: ApiCaller) -> None:
    config = deployment()
    config["spec"]["template"]["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}]
    await api.apply(f"{DEPLOYMENTS}/web", config, "first")
    config["spec"]["template"]["spec"]["tolerations"] = []
    refused = await api.apply(f"{DEPLOYMENTS}/web", config, "second")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "first": .spec.template.spec.tolerations'
    forced = await api.apply(f"{DEPLOYMENTS}/web", config, "second", force=True)
    assert "tolerations" not in forced.body["spec"]["template"]["spec"]


async def test_null_clears_a_field_and_claims_it(api: ApiCaller) -> None:
    await api.apply(f"{DEPLOYMENTS}/web", deployment(), "first")
    await api.patch(f"{DEPLOYMENTS}/web?fieldManager=autoscaler", {"spec": {"replicas": 5}})
    config = deployment()
    config["spec"] |= {"replicas": None, "strategy": None}
    refused = await api.apply(f"{DEPLOYMENTS}/web", config, "second")
    assert refused.message == ('Apply failed with 1 conflict: conflict with "autoscaler" using apps/v1: .spec.replicas')
    forced = await api.apply(f"{DEPLOYMENTS}/web", config, "second", force=True)
    assert forced.body["spec"]["replicas"] == 1
    assert forced.body["spec"]["strategy"]["type"] == "RollingUpdate"
    assert {".spec.replicas", ".spec.strategy"} <= set(owners(forced.body)["second Apply"])


async def test_the_same_value_is_owned_together(api: ApiCaller) -> None:
    await api.apply(SETTINGS, config_map(a="1"), "first")
    answer = await api.apply(SETTINGS, config_map(a="1"), "second")
    assert owners(answer.body) == {"first Apply": [".data.a"], "second Apply": [".data.a"]}


async def test_an_update_takes_ownership_of_what_it_changes(api: ApiCaller) -> None:
    await api.apply(SETTINGS, config_map(a="1", b="1"), "first")
    answer = await api.patch(f"{SETTINGS}?fieldManager=editor", {"data": {"a": "2", "c": "3"}})
    assert owners(answer.body) == {"editor Update": [".data.a", ".data.c"], "first Apply": [".data.b"]}


async def test_what_an_update_removes_has_no_owner(api: ApiCaller) -> None:
    await api.apply(SETTINGS, config_map(a="1", b="1"), "first")
    answer = await api.patch(SETTINGS, {"data": {"a": None}})
    assert owners(answer.body) == {"first Apply": [".data.b"]}


async def test_the_creator_owns_what_it_wrote_and_defaults_but_not_what_admission_added(api: ApiCaller) -> None:
    answer = await api.post(PODS, pod(), agent="kubectl-create/v1")
    owned = owners(answer.body)["kubectl-create Update"]
    assert '.spec.containers[name="c"].image' in owned
    assert ".spec.restartPolicy" in owned
    assert ".spec.tolerations" not in owned
    assert answer.body["spec"]["tolerations"]


async def test_the_manager_is_the_program_unless_it_is_named(api: ApiCaller) -> None:
    by_agent = await api.post(CONFIG_MAPS, config_map("a", x="1"), agent="kubectl/v1.32.4 (linux/amd64)")
    by_name = await api.post(f"{CONFIG_MAPS}?fieldManager=me", config_map("b", x="1"))
    assert list(owners(by_agent.body)) == ["kubectl Update"]
    assert list(owners(by_name.body)) == ["me Update"]


async def test_status_is_owned_apart(api: ApiCaller) -> None:
    await api.post(f"{DEPLOYMENTS}?fieldManager=me", deployment())
    answer = await api.patch(f"{DEPLOYMENTS}/web/status?fieldManager=controller", {"status": {"replicas": 2}})
    assert owners(answer.body)["controller Update status"] == [".status.replicas"]
    assert not [path for path in owners(answer.body)["me Update"] if path.startswith(".status")]


async def test_status_is_applied_by_itself(api: ApiCaller) -> None:
    await api.post(DEPLOYMENTS, deployment())
    config = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 9}, "status": {"replicas": 2}}
    answer = await api.apply(f"{DEPLOYMENTS}/web/status", config)
    assert (answer.body["spec"]["replicas"], answer.body["status"]["replicas"]) == (1, 2)
    assert owners(answer.body)["applier Apply status"] == [".status.replicas"]


async def test_items_of_lists_are_owned_one_by_one(api: ApiCaller) -> None:
    await api.apply(f"{DEPLOYMENTS}/web", deployment())
    sidecar = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "s"}]}}},
    }
    both = await api.apply(f"{DEPLOYMENTS}/web", sidecar, "injector")
    assert [c["name"] for c in both.body["spec"]["template"]["spec"]["containers"]] == ["c", "sidecar"]
    assert (await api.apply(f"{DEPLOYMENTS}/web", deployment())).code == 200
    del sidecar["spec"]
    alone = await api.apply(f"{DEPLOYMENTS}/web", sidecar, "injector")
    assert [c["name"] for c in alone.body["spec"]["template"]["spec"]["containers"]] == ["c"]


async def test_quantities_are_compared_as_they_are_stored(api: ApiCaller) -> None:
    body = pod()
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000m", "memory": "1024Mi"}}
    first = await api.apply(f"{PODS}/web", body)
    assert first.code == 201, first.message
    again = await api.apply(f"{PODS}/web", body)
    assert (again.code, again.body) == (200, first.body)


async def test_managed_fields_can_be_forgotten(api: ApiCaller) -> None:
    await api.apply(SETTINGS, config_map(a="1"))
    answer = await api.patch(SETTINGS, {"metadata": {"managedFields": [{}]}})
    assert "managedFields" not in answer.body["metadata"]
    conflict = await api.apply(SETTINGS, config_map(a="2"))
    assert conflict.message == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'


def in_order(fields: Any) -> bool:
    return list(fields) == sorted(fields) and all(in_order(below) for below in fields.values())


@pytest.mark.req("N.11")
async def test_fields_are_written_in_order_as_go_programs_expect(api: ApiCaller) -> None:
    await api.post(PODS, pod())
    pod_entries = (await api.patch(f"{PODS}/web/status", {"status": {"reason": "x", "message": "y"}})).body
    await api.apply(SETTINGS, config_map(zebra="1", ant="2"))
    settings = (await api.patch(SETTINGS, {"data": {"fox": "1", "cow": "2"}})).body
    entries = [entry for found in (pod_entries, settings) for entry in found["metadata"]["managedFields"]]
    assert len(entries) == 4
    assert all(in_order(entry["fieldsV1"]) for entry in entries)


async def test_there_are_never_too_many_managers(api: ApiCaller) -> None:
    await api.post(CONFIG_MAPS, config_map(a="1"))
    answer = None
    for number in range(15):
        api.clock.advance(1)
        answer = await api.patch(f"{SETTINGS}?fieldManager=m{number:02}", {"data": {f"k{number:02}": "1"}})
    assert answer is not None
    found = owners(answer.body)
    assert len(found) == 10
    assert ".data.k00" in found["ancient-changes Update"]


async def test_a_version_in_the_configuration_must_be_the_present_one(api: ApiCaller) -> None:
    version = (await api.apply(SETTINGS, config_map(a="1"))).version
    body = config_map(a="2")
    body["metadata"]["resourceVersion"] = version
    assert (await api.apply(SETTINGS, body)).code == 200
    assert (await api.apply(SETTINGS, body)).code == 409


async def test_a_dry_run_keeps_nothing(api: ApiCaller) -> None:
    answer = await api.patch(
        f"{SETTINGS}?fieldManager=me&dryRun=All", config_map(a="1"), "application/apply-patch+yaml"
    )
    assert answer.code == 201
    assert (await api.get(SETTINGS)).code == 404


@dataclass(frozen=True)
class Refused:
    id: str
    body: Any
    code: int
    message: str
    query: str = "?fieldManager=me"


REFUSED = [
    Refused(
        "no manager",
        config_map(),
        422,
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        "",
    ),
    Refused(
        "an unknown field",
        {**config_map(), "dota": {}},
        400,
        "failed to create typed patch object (default/settings; v1, Kind=ConfigMap): "
        ".dota: field not declared in schema",
    ),
    Refused(
        "several unknown fields",
        {**config_map(), "dota": {}, "metadata": {"name": "settings", "nome": "x"}},
        400,
        "failed to create typed patch object (default/settings; v1, Kind=ConfigMap): errors:\n"
        "  .metadata.nome: field not declared in schema\n  .dota: field not declared in schema",
    ),
    Refused(
        "a field twice, strictly",
        b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  a: x\n  a: z\n",
        400,
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 7: key "a" already set in map',
        "?fieldManager=me&fieldValidation=Strict",
    ),
    Refused(
        "managed fields",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": [{"manager": "x"}]}},
        400,
        "metadata.managedFields must be nil",
    ),
    Refused(
        "another name",
        config_map("other"),
        400,
        "the name of the object (other) does not match the name on the URL (settings)",
    ),
    Refused(
        "no kind", {"data": {}}, 400, "the applied object is of no version of no kind, but was sent to v1 ConfigMap"
    ),
    Refused(
        "no object",
        b"[]",
        400,
        "failed to create typed patch object (default/settings; v1, Kind=ConfigMap): expected one object",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
async def test_refused_is(api: ApiCaller, case: Refused) -> None:
    answer = await api.patch(SETTINGS + case.query, case.body, "application/apply-patch+yaml")
    assert (answer.code, answer.message) == (case.code, case.message)


async def test_an_item_without_its_key_is_refused(api: ApiCaller) -> None:
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": [{"namespace": "b"}]}
    answer = await api.apply("/api/v1/namespaces/default/serviceaccounts/a", body)
    assert (answer.code, answer.message) == (
        400,
        'failed to create typed patch object: an item of a list with keys omits all key fields ["name"]',
    )


def test_elements_are_written_as_kubernetes_does() -> None:
    assert field_set.item_element({"name": "é", "port": 80}) == 'k:{"name":"é","port":80}'
