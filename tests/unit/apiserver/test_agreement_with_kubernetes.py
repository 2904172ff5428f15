"""Behaviour that the comparison with kube-apiserver on random requests has settled (docs/differences.md)."""

from typing import Any

import pytest

from api_caller import APPLY, MERGE_PATCH, PODS, STRATEGIC, ApiCaller, pod

pytestmark = pytest.mark.req("S.1")
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
NODES = "/api/v1/nodes"
SERVICES = "/api/v1/namespaces/default/services"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
NO_KEYS = {"secrets": [{"namespace": "other"}]}


def fields_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry["fieldsV1"] for entry in body["metadata"].get("managedFields", [])]


def job(name: str, template: dict[str, Any] | None = None, labels: dict[str, str] | None = None) -> dict[str, Any]:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "labels": labels or {}}
    return {"metadata": metadata, "spec": {"template": {"metadata": template or {}, "spec": spec}}}


async def test_an_object_that_no_manager_owns_stays_so(api: ApiCaller) -> None:
    await api.post(NODES, {"metadata": {"name": "n"}})
    answer = await api.patch(f"{NODES}/n", {"spec": {"unschedulable": True}}, MERGE_PATCH)
    assert fields_of(answer.body) == []


async def test_an_object_with_an_item_that_has_no_keys_has_no_managers(api: ApiCaller) -> None:
    answer = await api.post(ACCOUNTS, {"metadata": {"name": "a"}, **NO_KEYS})
    assert (answer.code, fields_of(answer.body)) == (201, [])


async def test_managers_stay_as_they_are_when_an_update_adds_an_item_that_has_no_keys(api: ApiCaller) -> None:
    before = await api.post(ACCOUNTS, {"metadata": {"name": "a"}, "secrets": [{"name": "s"}]})
    answer = await api.patch(f"{ACCOUNTS}/a", NO_KEYS, MERGE_PATCH)
    assert (answer.code, fields_of(answer.body)) == (200, fields_of(before.body))


async def test_nothing_is_applied_to_an_object_with_an_item_that_has_no_keys(api: ApiCaller) -> None:
    await api.post(ACCOUNTS, {"metadata": {"name": "a"}, **NO_KEYS})
    config = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": [{"name": "s"}]}
    answer = await api.patch(f"{ACCOUNTS}/a?fieldManager=m", config, APPLY)
    assert (answer.code, answer.message.partition(":")[0]) == (400, "failed to create typed live object")


async def test_keys_that_the_type_always_writes_may_be_left_out(api: ApiCaller) -> None:
    spec = {"containers": [{"name": "c", "image": "i", "ports": [{"name": "http"}]}, {"image": "i"}]}
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    answer = await api.patch(f"{PODS}/p?fieldManager=m", config, APPLY)
    assert (answer.code, answer.reason) == (422, "Invalid")


async def test_what_was_there_before_the_first_apply_is_what_a_client_wrote(api: ApiCaller) -> None:
    await api.post(NODES, {"metadata": {"name": "n"}})
    config = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": "b"}}}
    answer = await api.patch(f"{NODES}/n?fieldManager=m", config, APPLY)
    managers = [entry["manager"] for entry in answer.body["metadata"]["managedFields"]]
    assert managers == ["m", "before-first-apply"]
    assert "f:status" not in fields_of(answer.body)[1]


async def test_items_that_are_duplicates_are_one_field(api: ApiCaller) -> None:
    tree = pod()
    tree["spec"]["containers"][0]["ports"] = [{"containerPort": 80}, {"containerPort": 80}]
    [fields] = fields_of((await api.post(PODS, tree)).body)
    [container] = fields["f:spec"]["f:containers"].values()
    assert container["f:ports"]['k:{"containerPort":80,"protocol":"TCP"}'] == {}


async def test_a_list_that_is_new_is_patched_without_merge_keys(api: ApiCaller) -> None:
    await api.post(ACCOUNTS, {"metadata": {"name": "a"}})
    answer = await api.patch(f"{ACCOUNTS}/a", NO_KEYS, STRATEGIC)
    assert (answer.code, len(answer.body["secrets"])) == (200, 1)


async def test_fractions_of_bytes_are_warned_about(api: ApiCaller) -> None:
    tree = pod()
    tree["spec"]["containers"][0]["resources"] = {"limits": {"memory": "100m"}}
    what = 'spec.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer'
    assert what in (await api.post(PODS, tree)).warnings


async def test_a_deleted_volume_attributes_class_is_shown(api: ApiCaller) -> None:
    classes = "/apis/storage.k8s.io/v1/volumeattributesclasses"
    await api.post(classes, {"metadata": {"name": "c"}, "driverName": "d.example.com", "parameters": {"a": "b"}})
    await api.patch(f"{classes}/c", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    assert (await api.delete(f"{classes}/c")).body["kind"] == "VolumeAttributesClass"


async def test_a_host_address_without_a_port_is_warned_about(api: ApiCaller) -> None:
    tree = pod()
    tree["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostIP": "10.0.0.1"}]
    what = "{Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}"
    assert f"spec.containers[0].ports[0]: hostIP set without hostPort: {what}" in (await api.post(PODS, tree)).warnings


async def test_names_in_an_endpoint_slice_are_warned_about_when_it_is_created(api: ApiCaller) -> None:
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    tree = {"metadata": {"name": "s"}, "addressType": "FQDN", "endpoints": [{"addresses": ["a.example.com"]}]}
    assert len((await api.post(slices, tree)).warnings) == 1
    assert (await api.patch(f"{slices}/s", {}, MERGE_PATCH)).warnings == []


async def test_the_name_of_the_default_runtime_handler_is_written(api: ApiCaller) -> None:
    node = (await api.post(NODES, {"metadata": {"name": "n"}})).body
    node["status"] = {"runtimeHandlers": [{"features": {"userNamespaces": False}}]}
    assert (await api.put(f"{NODES}/n/status", node)).body["status"]["runtimeHandlers"][0]["name"] == ""


async def test_a_field_that_is_written_as_null_is_owned(api: ApiCaller) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = (await api.post(CLAIMS, {"metadata": {"name": "c"}, "spec": spec})).body
    claim["status"] = {"conditions": [{"type": "Resizing", "status": "True"}]}
    answer = await api.put(f"{CLAIMS}/c/status", claim)
    [conditions] = [fields["f:status"]["f:conditions"] for fields in fields_of(answer.body) if "f:status" in fields]
    assert set(conditions['k:{"type":"Resizing"}']) == {
        ".",
        "f:lastProbeTime",
        "f:lastTransitionTime",
        "f:status",
        "f:type",
    }


async def test_addresses_that_the_server_lists_have_no_manager(api: ApiCaller) -> None:
    service = {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
    answer = await api.post(SERVICES, service)
    [fields] = fields_of(answer.body)
    assert answer.body["spec"]["clusterIPs"] == ["None"]
    assert "f:clusterIPs" not in fields["f:spec"]


@pytest.mark.parametrize("template", [{}, {"labels": {}}, {"labels": {"app": "x"}}], ids=str)
async def test_a_job_without_labels_gets_those_of_its_template(api: ApiCaller, template: dict[str, Any]) -> None:
    stored = (await api.post(JOBS, job("j", template))).body
    assert stored["metadata"]["labels"] == stored["spec"]["template"]["metadata"]["labels"]
    assert stored["metadata"]["labels"]["job-name"] == "j"


async def test_a_job_keeps_the_labels_that_it_was_given(api: ApiCaller) -> None:
    stored = (await api.post(JOBS, job("j", {"labels": {"app": "x"}}, {"app": "x"}))).body
    assert stored["metadata"]["labels"] == {"app": "x"}


@pytest.mark.parametrize(
    ("query", "is_warned"), [("", True), ("?propagationPolicy=Background", False), ("?propagationPolicy=Orphan", False)]
)
async def test_deleting_a_job_without_a_policy_is_warned_about(api: ApiCaller, query: str, *, is_warned: bool) -> None:
    await api.post(JOBS, job("j"))
    answer = await api.delete(f"{JOBS}/j{query}")
    assert (answer.code, any("child pods are preserved" in text for text in answer.warnings)) == (200, is_warned)


async def test_a_dry_run_shows_the_grace_period_of_a_pod_that_would_be_deleted_at_once(api: ApiCaller) -> None:
    await api.post(PODS, pod())
    answer = await api.delete(f"{PODS}/web?dryRun=All")
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await api.get(f"{PODS}/web")).code == 200
