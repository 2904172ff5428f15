"""`mooring policy test`: evaluate admission policies on manifests, without a cluster.

Exit codes: 0 when nothing is refused, 1 when something is, 2 for a wrong call, and for policies that no server takes.
"""

import sys
from pathlib import Path

import click

from mooring.cli.support.cluster_source import show_notes
from mooring.cli.support.flags import FILE_OR_FOLDER, MANIFESTS
from mooring.cli.support.output import output_option, print_data, print_table, report_errors

_COLOURS = {"denied": "red", "unknown": "yellow", "warned": "yellow", "changed": "cyan"}


@click.group()
def policy() -> None:
    """Try admission policies before a cluster has them."""


@policy.command("test")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    type=MANIFESTS,
    help="Policies, bindings, parameters, namespaces and objects.",
)
@click.option(
    "--operation",
    type=click.Choice(["CREATE", "UPDATE", "DELETE"], case_sensitive=False),
    default="CREATE",
    help="The operation on the objects.",
)
@click.option("--old", "old_files", multiple=True, type=FILE_OR_FOLDER, help="The objects before an UPDATE.")
@click.option("--as", "user", default="", metavar="USER", help="The requesting user.  [default: kubernetes-admin]")
@click.option("--as-group", "groups", multiple=True, metavar="GROUP", help="A group of that user.")
@click.option("-n", "--namespace", default="default", help="The namespace of objects that do not name one.")
@output_option("table", "json", "yaml")
def test(
    *,
    files: tuple[Path, ...],
    operation: str,
    old_files: tuple[Path, ...],
    user: str,
    groups: tuple[str, ...],
    namespace: str,
    output: str,
) -> None:
    """Evaluate ValidatingAdmissionPolicies and MutatingAdmissionPolicies on objects.

    Everything is read from files, nothing from a cluster. Every object that is neither a policy nor a binding is
    evaluated as an API server would do it. The `authorizer` denies everything.

    \b
    Examples:
      mooring policy test -f policy.yaml -f deployment.yaml
      kustomize build . | mooring policy test -f policies/ -f - -o json
      mooring policy test -f policy.yaml --operation UPDATE --old before.yaml -f after.yaml
    """
    from mooring.advisor.policies.testing import PolicyTest, PolicyTestError
    from mooring.advisor.snapshot import SnapshotError
    from mooring.api.authentication_v1 import UserInfo

    who = UserInfo(username=user, groups=[*groups, "system:authenticated"]) if user else None
    asked = PolicyTest(files, operation.upper(), old_files, who, namespace)
    with report_errors(PolicyTestError, SnapshotError, usage=True):
        results = [*asked.run(sys.stdin.buffer)]
    show_notes(asked.notes)
    denied = sum(each.result == "denied" for each in results)
    if output == "table":
        rows = [
            (each.object, click.style(row.result, fg=_COLOURS.get(row.result)), row.policy, row.binding, row.message)
            for each in results
            for row in each.rows
        ]
        if rows:
            print_table(("OBJECT", "RESULT", "POLICY", "BINDING", "MESSAGE"), rows)
        untouched = sum(not each.rows for each in results)
        click.echo(
            f"{len(results)} objects: {denied} denied, {len(results) - denied - untouched} evaluated and not denied,"
            f" {untouched} that no policy concerns",
            err=True,
        )
    else:
        print_data({"objects": [each.to_json_tree() for each in results], "denied": denied}, output)
    sys.exit(1 if denied else 0)
