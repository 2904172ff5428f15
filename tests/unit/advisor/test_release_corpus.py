"""What changed between neighbouring releases is found, all of it, and is what Mooring does when it emulates both."""

import json
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
from mooring.api.kinds import KINDS
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


def changed(crossing: Crossing) -> Iterator[tuple[str, str, str]]:
    """Every field of a stable kind that a release has on and the other has not: apiVersion, kind and path, once."""
    seen: set[str] = set()
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
                if _is_lost(field, crossing):
                    yield served.api_version, served.kind, here
                elif field.releases.has(crossing.start):
                    step = f"{here}[0]" if field.type.startswith("[]") else here
                    pending.append((field.holds, f"{step}.key" if field.type.startswith("{}") else step))


def _is_lost(field: Field, crossing: Crossing) -> bool:
    on_here = field.releases.has(crossing.start) and crossing.is_on(field.gates, crossing.start)
    return on_here and not (field.releases.has(crossing.end) and crossing.is_on(field.gates, crossing.end))


def tree_with(path: str) -> Any:
    """The smallest tree that has something at a path."""
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
    """A path, and those of what it is in."""
    while path:
        yield path
        path = path.removesuffix("[0]") if path.endswith("[0]") else path.rpartition(".")[0]


# -- played

NOT_TOLD_APART = {"1.34 Deployment gpu"}
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


@pytest.mark.parametrize("version", ["1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"])
async def test_mooring_takes_it_as_the_newer_release_and_not_as_the_older(version: str, tmp_path: Path) -> None:
    played = [case for case in ALL if version in (case.newer, case.older) and is_known(case)]
    async with started(tmp_path, Start(emulation=version, min_compatibility=version)) as server:
        taken = {str(case): await kept(server, case) for case in played}
    assert {name for name in taken if taken[name]} == {
        str(case) for case in played if case.newer == version or str(case) in NOT_TOLD_APART
    }


def test_a_field_that_was_refused_before_and_is_dropped_now_is_no_loss() -> None:
    found = releases.audit(dump([FOLDER / "1.31.yaml"]), Crossing.between("1.29", "1.30"))
    assert [f for f in found.findings if f.level is not Severity.INFO] == []
