"""What changed between neighbouring releases is found, all of it, and is what Mooring does when it emulates both."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.advisor import releases
from mooring.advisor.lint.rules import Severity
from mooring.advisor.releases import Crossing
from mooring.advisor.snapshot import RawObject, Snapshot, dump
from mooring.api.errors import StatusError
from mooring.api.history import Field, history
from mooring.api.history.tables import Value
from mooring.api.kinds import KINDS, GroupVersion
from mooring.base.version import Version
from release_corpus import ALL, FOLDER, NEWER, Case, cases
from started_server import Start, Started, started

pytestmark = pytest.mark.req("U.7")


@pytest.mark.parametrize("newer", NEWER)
def test_on_the_way_down_each_object_loses_what_is_said_and_nothing_else(newer: str) -> None:
    expected = cases(newer)
    found = releases.audit(dump([FOLDER / f"{newer}.yaml"]), Crossing.between(newer, expected[0].older))
    assert sorted((f"{f.object.kind} {f.object.name}", f.rule.id, f.field) for f in found.findings) == sorted(
        (case.name, case.rule, case.field) for case in expected
    )


@pytest.mark.parametrize("newer", NEWER)
def test_on_the_way_up_nothing_is_lost(newer: str) -> None:
    older = cases(newer)[0].older
    found = releases.audit(dump([FOLDER / f"{newer}.yaml"]), Crossing.between(older, newer))
    assert [f for f in found.findings if f.rule.id != "R040"] == []


# -- complete against the table


RENAMED = "core.v1.VolumeResourceRequirements"
"""What was called ResourceRequirements before 1.29."""


def changed(crossing: Crossing) -> Iterator[tuple[str, str, str]]:
    """Every field of a kind that a release has on and the other has not: apiVersion, kind and path, once."""
    seen = {RENAMED}
    for served in history().resources:
        if not (crossing.serves(served, end=False) and crossing.knows(served, end=True)):
            continue
        pending = [(served.definition, "")]
        while pending:
            definition, path = pending.pop()
            if definition in seen:
                continue
            seen.add(definition)
            for field in history().definitions.get(definition, {}).values():
                here = f"{path}.{field.name}" if path else field.name
                if not path and field.name in ("status", "metadata", "apiVersion", "kind"):
                    continue
                if not is_on(field, crossing, crossing.start):
                    continue
                if not is_on(field, crossing, crossing.end):
                    yield served.api_version, served.kind, here
                step = f"{here}[0]" if field.type.startswith("[]") else here
                pending.append((field.holds, f"{step}.key" if field.type.startswith("{}") else step))


def is_on(of: Field | Value, crossing: Crossing, version: Version) -> bool:
    return of.releases.has(version) and crossing.is_on(of.gates, version)


def tree_with(path: str) -> Any:
    """Return the smallest tree that has something at a path."""
    head, _, rest = path.partition(".")
    inner = tree_with(rest) if rest else "something"
    name, listed, _ = head.partition("[")
    return {name: [inner] if listed else inner}


PAIRS = [(newer, f"1.{int(newer[2:]) - 1}") for newer in NEWER]


@pytest.mark.parametrize(("start", "end"), [*PAIRS, ("1.36", "1.37"), ("1.37", "1.29"), ("1.29", "1.37")])
def test_every_field_that_the_table_has_on_one_side_only_is_found(start: str, end: str) -> None:
    crossing = Crossing.between(start, end)
    wanted = list(changed(crossing))
    if crossing.start > crossing.end:
        assert wanted
    raw = []
    for number, (api_version, kind, path) in enumerate(wanted):
        tree = {"apiVersion": api_version, "kind": kind, "metadata": {"name": str(number)}, **tree_with(path)}
        raw.append(RawObject(api_version, kind, "", str(number), _tree=tree))
    found = releases.audit(Snapshot("a test", raw=raw), crossing, plays=False).findings
    lost = {(each.object.name, each.field) for each in found if each.rule.id in ("R004", "R005")}
    missed = [
        path for number, (_, _, path) in enumerate(wanted) if not any((str(number), up) in lost for up in ups(path))
    ]
    assert missed == []


def ups(path: str) -> Iterator[str]:
    """Yield a path, and those of what it is in."""
    while path:
        yield path
        path = path.removesuffix("[0]") if path.endswith("[0]") else path.rpartition(".")[0]


# -- the corpus has all of it

WRITTEN_BY_NO_CLIENT = {
    "authentication.k8s.io/v1 SelfSubjectReview": "a question, which is not stored",
    "authorization.v1.ResourceAttributes.fieldSelector": "part of a question",
    "authorization.v1.ResourceAttributes.labelSelector": "part of a question",
    "certificates.k8s.io/v1 PodCertificateRequest": "kubelets make it, with a proof that they have a key",
    "core.v1.EphemeralContainer.resizePolicy": "refused in every release",
    "core.v1.EphemeralContainer.restartPolicy": "refused in every release",
    "core.v1.EphemeralContainer.restartPolicyRules": "refused in every release",
    "flowcontrol.v1beta2.PriorityLevelConfigurationSpec.exempt": "an older version of the following",
    "flowcontrol.v1beta3.PriorityLevelConfigurationSpec.exempt": "the server's own level alone has it",
}
"""What changes and cannot be in a manifest, and why."""


def changes(crossing: Crossing) -> Iterator[str]:
    """Kinds, fields (with their definition) and values that a release has on and the one before has not."""
    known = history()
    for served in known.resources:
        if crossing.serves(served, end=False) and not crossing.serves(served, end=True):
            yield f"{served.api_version} {served.kind}"
    for definition, fields in reached(crossing):
        for of in fields:
            if not is_on(of, crossing, crossing.end):
                yield f"{definition}.{of.name}"
            values = known.enums.get(of.holds, {})
            if any(value.releases.has(crossing.end) for value in values.values()):  # else only the type is new
                for name, value in values.items():
                    if is_on(value, crossing, crossing.start) and not is_on(value, crossing, crossing.end):
                        yield f"{definition}.{of.name}={name}"


def reached(crossing: Crossing) -> Iterator[tuple[str, list[Field]]]:
    """Yield the definitions below what people write in kinds that both releases serve, and their fields that are on."""
    known, seen = history(), {RENAMED}
    kinds = (each for each in known.resources if crossing.serves(each, end=False) and crossing.serves(each, end=True))
    pending = [each.definition for each in kinds]
    while pending:
        definition = pending.pop()
        if definition not in seen:
            seen.add(definition)
            fields = known.definitions.get(definition, {}).values()
            on = [each for each in fields if each.name != "status" and is_on(each, crossing, crossing.start)]
            yield definition, on
            pending += [each.holds for each in on if is_on(each, crossing, crossing.end)]


def meant(case: Case) -> str:
    """Return what a row of the corpus is about, as `changes` names it."""
    if case.rule == "R001":
        return f"{case.tree['apiVersion']} {case.tree['kind']}"
    known = history()
    served = known.kind(*GroupVersion.parse(case.tree["apiVersion"]), case.tree["kind"])
    assert served is not None
    value: Any = case.tree
    definition, name = served.definition, ""
    for step in re.findall(r"[^.\[\]]+", case.field):
        value = value[int(step)] if isinstance(value, list) else value[step]
        field = known.definitions.get(definition, {}).get(step)
        if field is not None:
            name, definition = f"{definition}.{step}", field.holds
    return f"{name}={value[0] if isinstance(value, list) else value}" if case.rule == "R006" else name


@pytest.mark.parametrize(("newer", "older"), PAIRS)
def test_the_corpus_has_every_kind_field_and_value_that_changed(newer: str, older: str) -> None:
    wanted = set(changes(Crossing.between(newer, older))) - WRITTEN_BY_NO_CLIENT.keys()
    assert {meant(case) for case in cases(newer) if case.rule != "R007"} == wanted


# -- played

NOT_DISTINGUISHED = {
    "1.34 Deployment gpu spec.template.spec.resourceClaims",
    "1.34 Pod gpu spec.resourceClaims",
    "1.34 Pod gpu spec.containers[0].resources.claims",
}
"""Claims of devices can be used as soon as their group is served: Mooring does not want a gate beside it."""


def is_known(case: Case) -> bool:
    """Whether Mooring has the kind."""
    return any((kind.api_version, kind.kind) == (case.tree["apiVersion"], case.tree["kind"]) for kind in KINDS)


async def kept(server: Started, case: Case) -> bool:
    """Whether a server takes an object with the field that it is about."""
    kind = next(k for k in KINDS if (k.api_version, k.kind) == (case.tree["apiVersion"], case.tree["kind"]))
    base = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    place = f"{base}/namespaces/default/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    query = [("dryRun", "All"), ("fieldValidation", "Ignore")]
    try:
        body = json.dumps(case.tree).encode()
        answer = await server.plane.client.raw("POST", place, query=query, body=body, content_type="application/json")
    except StatusError:
        return False
    return case.has_field(json.loads(answer.body))


@pytest.mark.parametrize("version", ["1.27", *NEWER])
async def test_mooring_takes_it_as_the_newer_release_and_not_as_the_older(version: str, tmp_path: Path) -> None:
    played = [case for case in ALL if version in (case.newer, case.older) and is_known(case)]
    async with started(tmp_path, Start(emulation=version, min_compatibility=version)) as server:
        taken = {str(case): await kept(server, case) for case in played}
    assert {name for name in taken if taken[name]} == {
        str(case) for case in played if case.newer == version or str(case) in NOT_DISTINGUISHED
    }


def test_a_field_that_was_refused_before_and_is_dropped_now_is_no_loss() -> None:
    found = releases.audit(dump([FOLDER / "1.31.yaml"]), Crossing.between("1.29", "1.30"))
    assert [f for f in found.findings if f.level is not Severity.INFO] == []
