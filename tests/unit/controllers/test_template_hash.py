import msgspec

from mooring.api.core_v1 import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from mooring.api.quantity import parse
from mooring.controllers.workloads.deployment_replica_sets import template_hash
from mooring.controllers.workloads.revisions import build_template_patch


def _template(cpu: str) -> PodTemplateSpec:
    container = Container(name="c", image="i", resources=ResourceRequirements(requests={"cpu": parse(cpu)}))
    return PodTemplateSpec(spec=PodSpec(containers=[container]))


def test_a_template_with_resource_requests_has_a_hash() -> None:
    assert template_hash(_template("100m"), None) == template_hash(_template("0.1"), None)


def test_templates_that_differ_in_a_request_have_different_hashes() -> None:
    assert template_hash(_template("100m"), None) != template_hash(_template("200m"), None)


def test_a_collision_gives_another_hash() -> None:
    assert template_hash(_template("1"), None) != template_hash(_template("1"), 0)


def test_the_data_of_a_revision_is_spelled_as_go_spells_it() -> None:
    template = _template("1")
    template.metadata.labels = {"b": "2", "a": "1"}
    text = msgspec.json.encode(build_template_patch(template)).decode()
    assert text == (
        '{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"a":"1","b":"2"}},'
        '"spec":{"containers":[{"image":"i","name":"c","resources":{"requests":{"cpu":"1"}}}]}}}}'
    )
