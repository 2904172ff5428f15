"""Creating objects."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from api_caller import CONFIG_MAPS, PODS, ApiCaller, api_caller, config_map, pod

pytestmark = pytest.mark.req("S.1")


async def test_a_created_object_has_what_only_the_server_says(api: ApiCaller) -> None:
    answer = await api.post(PODS, pod())
    metadata = answer.body["metadata"]
    assert answer.code == 201
    assert metadata["namespace"] == "default"
    assert metadata["uid"]
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert metadata["generation"] == 1
    assert (await api.get(f"{PODS}/web")).body == answer.body


async def test_versions_grow_with_every_write(api: ApiCaller) -> None:
    versions = [int((await api.post(PODS, pod(name))).version) for name in ("a", "b", "c")]
    assert versions == sorted(set(versions))


async def test_a_name_is_made_up_from_its_beginning(api: ApiCaller) -> None:
    body = pod()
    body["metadata"] = {"generateName": "web-"}
    names = {(await api.post(PODS, body)).body["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


async def test_a_made_up_name_that_is_taken_is_made_up_again(api: ApiCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    suffixes = iter(["bbbbb", "bbbbb", "ccccc"])
    monkeypatch.setattr("mooring.admission.pipeline._random_suffix", lambda: next(suffixes))
    body = config_map()
    body["metadata"] = {"generateName": "x-"}
    names = [(await api.post(CONFIG_MAPS, body)).body["metadata"]["name"] for _ in range(2)]
    assert names == ["x-bbbbb", "x-ccccc"]


async def test_labels_follow_a_name_that_is_made_up_again(api: ApiCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    suffixes = iter(["bbbbb", "bbbbb", "ccccc"] * 2)
    monkeypatch.setattr("mooring.admission.pipeline._random_suffix", lambda: next(suffixes))
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "x-"}}
    await api.post("/api/v1/namespaces", space)
    second = (await api.post("/api/v1/namespaces", space)).body["metadata"]
    assert (second["name"], second["labels"]) == ("x-ccccc", {"kubernetes.io/metadata.name": "x-ccccc"})

    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "x-"},
        "spec": {"template": template},
    }
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    await api.post(jobs, job)
    labels = (await api.post(jobs, job)).body["spec"]["template"]["metadata"]["labels"]
    assert labels["job-name"] == labels["batch.kubernetes.io/job-name"] == "x-ccccc"


async def test_a_dry_run_keeps_nothing(api: ApiCaller) -> None:
    answer = await api.post(f"{PODS}?dryRun=All", pod())
    assert answer.code == 201
    assert answer.body["spec"]["restartPolicy"] == "Always"
    assert "resourceVersion" not in answer.body["metadata"]
    assert (await api.get(f"{PODS}/web")).code == 404


async def test_a_dry_run_reports_that_a_name_is_taken(api: ApiCaller) -> None:
    await api.post(PODS, pod())
    assert (await api.post(f"{PODS}?dryRun=All", pod())).reason == "AlreadyExists"


async def test_yaml_is_read_as_well(api: ApiCaller) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 'on'}\n"
    answer = await api.post(CONFIG_MAPS, body, media_type="application/yaml")
    assert answer.body["data"] == {"a": "on"}


async def test_type_and_version_may_be_left_to_the_path(api: ApiCaller) -> None:
    answer = await api.post(CONFIG_MAPS, {"metadata": {"name": "x"}})
    assert (answer.code, answer.body["kind"], answer.body["apiVersion"]) == (201, "ConfigMap", "v1")


@dataclass(frozen=True)
class Refused:
    id: str
    code: int
    message: str
    url: str = CONFIG_MAPS
    body: Any = field(default_factory=config_map)
    media_type: str = ""
    agent: str = "test/1"


REFUSED = [
    Refused(
        "a namespace that does not exist", 404, 'namespaces "nope" not found', "/api/v1/namespaces/nope/configmaps"
    ),
    Refused(
        "another namespace in the body",
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
        body={"metadata": {"name": "x", "namespace": "other"}},
    ),
    Refused(
        "another version in the body",
        400,
        "the API version in the data (v2) does not match the expected API version (v1)",
        body={"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "x"}},
    ),
    Refused(
        "another kind in the body",
        400,
        'Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): '
        "unknown conversion",
        body={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
    ),
    Refused(
        "an unknown field under strict validation",
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dota"',
        url=f"{CONFIG_MAPS}?fieldValidation=Strict",
        body={"metadata": {"name": "x"}, "dota": {}},
    ),
    Refused(
        "a dry run of an unknown sort",
        422,
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
        url=f"{CONFIG_MAPS}?dryRun=Some",
    ),
    Refused(
        "a validation of an unknown sort",
        422,
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loud": supported values: '
        '"Ignore", "Strict", "Warn"',
        url=f"{CONFIG_MAPS}?fieldValidation=Loud",
    ),
    Refused(
        "a manager with too long a name",
        422,
        'CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes',
        url=f"{CONFIG_MAPS}?fieldManager={'m' * 129}",
    ),
    Refused(
        "CBOR",
        415,
        "the body of the request was in an unknown format - accepted media types include: application/json, "
        "application/yaml",
        media_type="application/cbor",
        body=b"\xa0",
    ),
    Refused(
        "a body that is too large",
        413,
        "Request entity too large: limit is 3145728",
        body=b" " * (3 * 1024 * 1024 + 1),
    ),
    Refused(
        "no body",
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: the input is empty',
        body=b"",
    ),
    Refused(
        "a create with a name in the path",
        405,
        'create is not supported on resources of kind "configmaps"',
        url=f"{CONFIG_MAPS}/x",
    ),
    Refused(
        "a create in all namespaces at once",
        405,
        'create is not supported on resources of kind "configmaps"',
        url="/api/v1/configmaps",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
async def test_refused(api: ApiCaller, case: Refused) -> None:
    answer = await api.post(case.url, case.body, media_type=case.media_type)
    assert (answer.code, answer.message) == (case.code, case.message)


async def test_a_name_that_is_taken(api: ApiCaller) -> None:
    await api.post(PODS, pod())
    answer = await api.post(PODS, pod())
    assert (answer.code, answer.message) == (409, 'pods "web" already exists')
    assert answer.body["details"] == {"name": "web", "kind": "pods"}


@dataclass(frozen=True)
class Validation:
    id: str
    query: str
    warnings: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Validation("warned of by default", "", ['unknown field "dota"']),
        Validation("warned of when asked to", "?fieldValidation=Warn", ['unknown field "dota"']),
        Validation("dropped silently when asked to", "?fieldValidation=Ignore", []),
    ],
    ids=lambda case: case.id,
)
async def test_unknown_fields_are(api: ApiCaller, case: Validation) -> None:
    answer = await api.post(CONFIG_MAPS + case.query, {"metadata": {"name": "x"}, "dota": {}})
    assert (answer.code, answer.warnings) == (201, case.warnings)
    assert "dota" not in answer.body


async def test_nothing_is_created_in_a_namespace_that_goes(api: ApiCaller) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "old"}})
    await api.delete("/api/v1/namespaces/old")
    answer = await api.post("/api/v1/namespaces/old/configmaps", config_map())
    assert answer.code == 403
    assert answer.message == (
        'configmaps "settings" is forbidden: unable to create new content in namespace old because it is being '
        "terminated"
    )
    assert answer.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"


async def test_events_go_by_themselves_after_an_hour(api: ApiCaller) -> None:
    url = "/api/v1/namespaces/default/events"
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"}}
    assert (await api.post(url, event)).code == 201
    await api.clock.run(3590)
    assert (await api.get(f"{url}/e")).code == 200
    await api.clock.run(20)
    assert (await api.get(f"{url}/e")).code == 404


async def test_events_of_both_groups_are_the_same(api: ApiCaller) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"}}
    await api.post("/api/v1/namespaces/default/events", {**event, "reason": "Killing", "message": "bye"})
    answer = await api.get("/apis/events.k8s.io/v1/namespaces/default/events/e")
    assert answer.body["regarding"]["name"] == "web"
    assert answer.body["note"] == "bye"


@pytest.mark.req("X.13")
async def test_who_creates_something_has_read_no_version_of_it() -> None:
    async with api_caller() as api:
        body = config_map()
        body["metadata"]["resourceVersion"] = "5"
        refused = await api.post(CONFIG_MAPS, body)
        assert (refused.code, refused.message) == (500, "resourceVersion should not be set on objects to be created")
        assert (await api.post(f"{CONFIG_MAPS}?dryRun=All", body)).code == 201, "Kubernetes asks the store alone"


@pytest.mark.req("X.13")
async def test_a_line_break_ends_every_answer_in_json() -> None:
    async with api_caller() as api:
        assert (await api.post(CONFIG_MAPS, config_map())).text.endswith(b"}\n")
        assert (await api.get(CONFIG_MAPS)).text.endswith(b"]}\n")


@pytest.mark.req("X.13")
async def test_lists_of_metadata_name_kind_and_version_of_each_item() -> None:
    async with api_caller() as api:
        await api.post(CONFIG_MAPS, config_map())
        listed = await api.get(CONFIG_MAPS, accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
        item = listed.body["items"][0]
        assert (item["kind"], item["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
