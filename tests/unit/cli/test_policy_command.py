"""`mooring policy test`: what it prints, its exit codes, and what it says about files that are wrong."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import mooring
from policy_objects import config_map, mutating, rules, validating

pytestmark = pytest.mark.req("X.7", "X.8", "S.5")
EXAMPLES = Path(__file__).parents[3] / "examples" / "policies"
PAGE = Path(__file__).parents[3] / "docs" / "policies.md"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(mooring, ["policy", "test", *map(str, arguments)])


def written(folder: Path, *objects: object, name: str = "all.yaml") -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump_all(objects))
    return path


def test_the_examples_are_evaluated_as_the_page_says() -> None:
    result = run("-f", EXAMPLES / "no-latest.yaml", "-f", EXAMPLES / "pods.yaml")
    assert result.exit_code == 1
    for line in result.stdout.splitlines():
        assert line in PAGE.read_text()
    assert "Pod shop/bad    denied    image-versions   image-versions   an image of bad has no version" in result.stdout


def test_json_has_the_answer_and_the_changed_object() -> None:
    result = run("-f", EXAMPLES / "no-latest.yaml", "-f", EXAMPLES / "pods.yaml", "-o", "json")
    reported = {each["object"]: each for each in json.loads(result.stdout)["objects"]}
    assert reported["Pod shop/good"]["changed"]["metadata"]["labels"] == {"team": "shop"}
    assert reported["Pod shop/bad"]["answer"].startswith('pods "bad" is forbidden: ValidatingAdmissionPolicy')
    assert reported["ConfigMap default/images"]["policies"] == []


def test_nothing_that_is_denied_exits_with_0(tmp_path: Path) -> None:
    warned = validating("careful", "object.data.color != 'red'", actions=("Warn",))
    result = run("-f", written(tmp_path, *warned, config_map(color="red")))
    assert result.exit_code == 0
    assert "warned" in result.stdout


def test_updates_and_deletions_are_evaluated(tmp_path: Path) -> None:
    frozen = written(tmp_path, *validating("frozen", "object.data == oldObject.data"), name="policy.yaml")
    old = written(tmp_path, config_map(color="red"), name="old.yaml")
    new = written(tmp_path, config_map(color="blue"), name="new.yaml")
    assert run("-f", frozen, "-f", new, "--old", old, "--operation", "UPDATE").exit_code == 1
    assert run("-f", frozen, "-f", old, "--old", old, "--operation", "UPDATE").exit_code == 0
    keep = validating("keep", "oldObject.data.color != 'red'", matchConstraints=rules("configmaps", "DELETE"))
    assert run("-f", written(tmp_path, *keep, config_map(color="red")), "--operation", "DELETE").exit_code == 1


def test_who_writes_can_be_said(tmp_path: Path) -> None:
    path = written(tmp_path, *validating("ann", "request.userInfo.username == 'ann'"), config_map())
    assert (run("-f", path).exit_code, run("-f", path, "--as", "ann").exit_code) == (1, 0)


def test_custom_resources_and_parameters_need_no_definition(tmp_path: Path) -> None:
    limit = {"apiVersion": "example.com/v1", "kind": "Limit", "metadata": {"name": "l"}, "spec": {"most": 3}}
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 5}}
    policy = validating(
        "small",
        "object.spec.size <= params.spec.most",
        matchConstraints=rules("widgets", group="example.com"),
        paramKind={"apiVersion": "example.com/v1", "kind": "Limit"},
        paramRef={"name": "l", "namespace": "default", "parameterNotFoundAction": "Deny"},
    )
    result = run("-f", written(tmp_path, *policy, limit, widget))
    assert result.exit_code == 1
    assert "Widget default/w   denied   small" in result.stdout


def test_what_cannot_be_used_exits_with_2_and_says_why(tmp_path: Path) -> None:
    wrong = run("-f", written(tmp_path, *validating("x", "object.data ==")))
    assert (wrong.exit_code, "spec.validations[0].expression: Invalid value" in wrong.stderr) == (2, True)
    none = run("-f", written(tmp_path, config_map()))
    assert (none.exit_code, "there is no ValidatingAdmissionPolicy" in none.stderr) == (2, True)


def test_a_policy_without_a_binding_is_noted(tmp_path: Path) -> None:
    result = run("-f", written(tmp_path, validating("x", "false")[0], mutating("z", "Object{}")[1], config_map()))
    assert result.exit_code == 0
    assert "ValidatingAdmissionPolicy x has no binding, and does nothing" in result.stderr
    assert "a binding names MutatingAdmissionPolicy z, which is not there" in result.stderr
