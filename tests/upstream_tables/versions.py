"""Tables of component-base: feature gates with versions, compatibility versions, and their flags."""

import json

from click.testing import CliRunner

from mooring.base import gates
from mooring.base.gates import Gate, GateError, Spec, Stage
from mooring.base.version import ComponentVersions, Version, VersionError
from mooring.cli.main import mooring
from upstream_tables.case import Play, Tree, difference


def _version(text: str) -> Version:
    major, minor = text.lstrip("v").split("-")[0].split("+")[0].split(".")[:2]
    return Version(int(major), int(minor))


def _gate(name: str, history: list[Tree], needs: tuple[str, ...]) -> Gate:
    specs = (
        Spec(
            _version(each["since"]),
            each["default"],
            Stage(each["stage"]),
            each["locked"],
            _version(each["min"]) if each["min"] else None,
        )
        for each in history
    )
    return Gate(name, "", tuple(specs), needs)


def _gates(case: Tree) -> str | None:
    needs = case.get("needs", {})
    known = [_gate(name, history, tuple(needs.get(name, ()))) for name, history in case["gates"].items()]
    emulation, compatible = _version(case["emu"]), _version(case["mc"])
    try:
        found = gates.resolve(known, ComponentVersions(emulation, emulation, compatible), gates.parse(case["arg"]))
    except GateError as error:
        return None if case["error"] else f"{error}, upstream accepts"
    if case["error"]:
        return f"accepted, upstream: {case['error']}"
    if problem := difference({name: found.enabled(name) for name in case["expect"]}, case["expect"]):
        return problem
    for name, stage in case.get("stage", {}).items():
        ours = found.states[name].spec.stage.value if name in found.states else None
        if ours != stage:
            return f"stage {ours}, upstream {stage}"
    return None


def _versions(case: Tree) -> str | None:
    emulation, compatible = (case[key] and _version(case[key]) for key in ("emulation", "min"))
    try:
        found = ComponentVersions.resolve(emulation or None, compatible or None, _version(case["binary"]))
    except VersionError as error:
        return None if case.get("errors") else f"{error}, upstream accepts"
    if "errors" in case:
        return "accepted, upstream refuses" if case["errors"] else None
    return difference([str(found.emulation.minor), str(found.min_compatibility.minor)], case["want"])


def _flags(case: Tree) -> str | None:
    run = CliRunner().invoke(mooring, ["version", "-o", "json", *case["flags"]])
    if case["error"]:
        return None if run.exit_code else f"accepted, upstream: {case['error']}"
    if run.exit_code:
        return f"{run.output}, upstream accepts"
    found = json.loads(run.stdout)
    return difference([found.get("emulationVersion"), found.get("minCompatibilityVersion")], case["want"])


TABLES: dict[str, Play] = {"gates.gates": _gates, "gates.versions": _versions, "gates.flags": _flags}
