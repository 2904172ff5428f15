"""`mooring rights`: a role that may read what advice reads, and nothing private."""

import pytest
import yaml
from click.testing import CliRunner

from mooring.cli.main import mooring

pytestmark = pytest.mark.req("S.5")


def test_the_role_reads_every_kind_of_a_snapshot_and_nothing_private() -> None:
    (role,) = yaml.safe_load_all(CliRunner().invoke(mooring, ["rights"]).stdout)
    assert role["metadata"]["name"] == "mooring-reader"
    read = {plural for rule in role["rules"] for plural in rule.get("resources", ())}
    assert {"nodes", "pods", "resourcequotas", "deployments", "resourceslices"} <= read
    assert not read & {"secrets", "configmaps"}
    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        (["--user", "jane"], {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}),
        (["--serviceaccount", "tools:m"], {"kind": "ServiceAccount", "name": "m", "namespace": "tools"}),
    ],
)
def test_the_role_is_bound_to_whom_the_flags_name(words: list[str], subject: dict[str, str]) -> None:
    _, binding = yaml.safe_load_all(CliRunner().invoke(mooring, ["rights", *words]).stdout)
    assert (binding["roleRef"]["name"], binding["subjects"]) == ("mooring-reader", [subject])


def test_an_account_without_a_namespace_is_a_wrong_call() -> None:
    done = CliRunner().invoke(mooring, ["rights", "--serviceaccount", "m"])
    assert (done.exit_code, "write NAMESPACE:NAME" in done.output) == (2, True)
