"""Writes the history of Kubernetes' API as data, from the files that Kubernetes publishes with its releases.

    .venv/bin/python -m tools.history /path/to/kubernetes.git

The argument is a git directory of kubernetes/kubernetes with the branches release-1.27 to release-1.37. Read are the
OpenAPI and discovery files (`api/`), the types of the API (closed enumerations, markers of feature gates), the
lifecycles of alpha and beta kinds, and the lists of feature gates. Only facts are taken: names, versions and stages.
``src/mooring/api/history/`` and ``src/mooring/base/gate_history.py`` read what is written here.
"""

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.history import go_sources, openapi
from tools.history.facts import Facts
from tools.history.fields import field_lines
from tools.history.go_sources import Stage
from tools.history.releases import FIRST, MINORS, Release, at, ranges

SOURCE = Path(__file__).parents[2] / "src" / "mooring"
FIELDS = SOURCE / "api" / "history" / "fields.txt"
RESOURCES = SOURCE / "api" / "history" / "resources.txt"
GATES = SOURCE / "base" / "gate_history.txt"

_LIFECYCLE = re.compile(
    r"func \(in \*(\w+)\) APILifecycle(\w+)\(\) \(?(?:major, minor int|[\w.]*GroupVersionKind)\)? \{\n\treturn (.*)\n"
)
_REPLACEMENT = re.compile(r'Group: "([^"]*)", Version: "([^"]*)"')
_LEGACY = re.compile(r"legacyBetaEnabledByDefaultResources = \[\].*?\{(.*?)\n\t\}", re.DOTALL)
_LEGACY_ENTRY = re.compile(r'^\s*(\w+?)(v\d+beta\d+)\.SchemeGroupVersion\.WithResource\("(\w+)"\)', re.MULTILINE)
ALL_VERBS = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("repository", type=Path, help="a git directory of kubernetes/kubernetes")
    repository = parser.parse_args().repository
    facts = [read(Release(repository, minor)) for minor in MINORS]
    gates = gate_histories(facts)
    sources = "".join(f"#   1.{each.minor} {each.commit}\n" for each in facts)
    for file, about, lines in (
        (GATES, GATES_HEAD, list(gate_lines(gates))),
        (RESOURCES, RESOURCES_HEAD, list(resource_lines(facts))),
        (FIELDS, FIELDS_HEAD, list(field_lines(facts, gates))),
    ):
        file.parent.mkdir(exist_ok=True)
        file.write_text(about + SOURCES_HEAD + sources + "".join(f"{line}\n" for line in lines))
        print(f"{file.name}: {len(lines)} lines")


SOURCES_HEAD = """\
# Written by tools/history from the files of kubernetes/kubernetes at these commits of its release branches:
"""
GATES_HEAD = """\
# Feature gates of Kubernetes 1.27 to 1.37, a gate a line: its stages, each with the release that it begins with, `+` or
# `-` for its default, `!` where it is locked; `Removed` from the first release on that does not have it any more.
# Stages before 1.27 are those that later releases still tell.
"""
RESOURCES_HEAD = """\
# What Kubernetes 1.27 to 1.37 serve: group/version/plural, kind, releases, and
#   namespaced   verbs=… (all of them if it does not say)   sub=…   off, off=releases: only with --runtime-config
#   stored=version@releases   introduced, deprecated, removed, use=… as the release notes of the API have them
# Releases: `1.30-1.33` is from 1.30 on and no longer in 1.33; nothing is all of them.
"""
FIELDS_HEAD = """\
# The fields of Kubernetes' API in 1.27 to 1.37: a definition, and below it a line for each field: name, type, and where
# it applies: releases (`1.30-1.33` is from 1.30 on and no longer in 1.33; nothing is all of them), gate=the feature
# gate that it came with, default=what OpenAPI says it is, deprecated=releases. `enum` lines have the values of closed
# string types, as value@releases!gate.
"""


def read(release: Release) -> Facts:
    """Everything that is read of a release."""
    packages: dict[str, list[str]] = defaultdict(list)
    lifecycles: dict[tuple[str, str], dict[str, str]] = {}
    for path, text in release.files(_is_type_file):
        place = ".".join(path.split("/")[-3:-1])
        if "prerelease-lifecycle" in path:
            lifecycles |= {((place, kind)): about for kind, about in _lifecycles(text)}
        else:
            packages[place].append(text)
    constants = go_sources.constants_of(packages["core.v1"])
    texts = [text for _, text in release.files(_is_gate_file)]
    drops = {
        (_group(path), *pair) for path, text in release.files(_is_strategy) for pair in go_sources.dropped_by(text)
    }
    instance = "".join(text for _, text in release.files(lambda path: path == "pkg/controlplane/instance.go"))
    legacy = _LEGACY.search(instance)
    return Facts(
        release.minor,
        release.commit,
        openapi.surface(release),
        {place: go_sources.types_of(each, constants) for place, each in packages.items()},
        go_sources.gates_of(texts, release.minor),
        drops,
        lifecycles,
        {(a, b, c) for a, b, c in _LEGACY_ENTRY.findall(legacy[1])} if legacy else set(),
    )


def _is_type_file(path: str) -> bool:
    if not path.startswith("staging/src/k8s.io/") or not path.endswith(".go") or "_test" in path:
        return False
    inside = re.match(
        r"staging/src/k8s\.io/(?:api|apimachinery/pkg/apis|apiextensions-apiserver/pkg/apis|kube-aggregator/pkg/apis)/"
        r"\w+/v\d\w*/(types\w*|\w+types|zz_generated\.prerelease-lifecycle|doc)\.go$",
        path,
    )
    return inside is not None


def _is_gate_file(path: str) -> bool:
    return (
        re.match(
            r"(pkg|staging/src/k8s\.io/(apiextensions-apiserver/pkg|apiserver/pkg|client-go|component-base/(metrics|zpages)|controller-manager/pkg))"
            r"/features/(versioned_)?(kube|known)_features\.go$"
            r"|staging/src/k8s\.io/component-base/logs/api/v1/kube_features\.go$",
            path,
        )
        is not None
    )


def _is_strategy(path: str) -> bool:
    return path.startswith(
        ("pkg/api/", "pkg/registry/", "staging/src/k8s.io/apiextensions-apiserver/pkg/registry/")
    ) and path.endswith(("util.go", "strategy.go"))


def _group(path: str) -> str:
    """Return the group whose fields a strategy drops: `apps` for `pkg/registry/apps/statefulset/strategy.go`."""
    words = path.split("/")
    if words[1] != "api":
        return words[-3]
    return {"job": "batch", "resourceclaimspec": "resource"}.get(words[2], "core")


def _lifecycles(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for kind, what, value in _LIFECYCLE.findall(text):
        if what == "Replacement":
            where = _REPLACEMENT.search(value)
            found[kind]["use"] = "/".join(filter(None, where.groups())) if where else ""
        else:
            found[kind][what.lower()] = value.replace(", ", ".")
    yield from found.items()


# -- gates


def gate_histories(facts: Iterable[Facts]) -> dict[str, list[Stage]]:
    """Return the lines of each gate's stages, oldest first."""
    histories: dict[str, dict[int, Stage]] = defaultdict(dict)
    last: dict[str, int] = {}
    for each in facts:
        for name, stages in each.gates.items():
            for stage in stages:
                if stage.minor < FIRST:
                    histories[name].setdefault(stage.minor, stage)
            now = next((s for s in reversed(stages) if s.minor <= each.minor), None)
            if now is not None:
                histories[name][each.minor] = Stage(each.minor, now.stage, now.default, now.locked)
                last[name] = each.minor
    found: dict[str, list[Stage]] = {}
    for name, by_minor in histories.items():
        steps: list[Stage] = []
        for minor in sorted(by_minor):
            stage = by_minor[minor]
            if not steps or (steps[-1].stage, steps[-1].default, steps[-1].locked) != (
                stage.stage,
                stage.default,
                stage.locked,
            ):
                steps.append(stage)
        if last.get(name, 0) and last[name] != max(MINORS):
            steps.append(Stage(last[name] + 1, "Removed", default=False, locked=False))
        if last.get(name):
            found[name] = steps
    return found


def gate_lines(gates: dict[str, list[Stage]]) -> Iterator[str]:
    for name in sorted(gates, key=str.lower):
        steps = (
            f"1.{step.minor}:{step.stage}"
            + ("" if step.stage == "Removed" else "+" if step.default else "-")
            + "!" * step.locked
            for step in gates[name]
        )
        yield f"{name} {' '.join(steps)}"


# -- resources


def resource_lines(facts: list[Facts]) -> Iterator[str]:
    seen: dict[tuple[str, str, str], dict[int, openapi.Resource]] = defaultdict(dict)
    for each in facts:
        for key, resource in each.surface.resources.items():
            if resource.kind:
                seen[key][each.minor] = resource
    for key in sorted(seen):
        yield _resource_line(key, seen[key], facts)


def _resource_line(key: tuple[str, str, str], by_minor: dict[int, openapi.Resource], facts: list[Facts]) -> str:
    group, version, _ = key
    newest = by_minor[max(by_minor)]
    words = ["/".join(filter(None, key)), newest.kind, ranges(by_minor) or "-"]
    if newest.namespaced:
        words.append("namespaced")
    if newest.verbs != ALL_VERBS:
        words.append("verbs=" + ",".join(sorted(newest.verbs)))
    subs: dict[str, set[int]] = defaultdict(set)
    for minor, resource in by_minor.items():
        for name in resource.subresources:
            subs[name].add(minor)
    if subs:
        words.append("sub=" + ";".join(name + at(ranges(minors)) for name, minors in sorted(subs.items())))
    off = {minor for minor in by_minor if not _is_on(key, facts[minor - FIRST])}
    if off:
        words.append("off" if off == set(by_minor) else f"off={ranges(off)}")
    stored: dict[str, set[int]] = defaultdict(set)
    for minor in by_minor:
        found = _storage_version(key, newest.kind, facts[minor - FIRST])
        if found and found != version:
            stored[found] |= {minor, FIRST} if minor == FIRST + 1 and FIRST in by_minor else {minor}
    words += [f"stored={other}{at(ranges(minors))}" for other, minors in sorted(stored.items())]
    place = f"{_package(group)}.{version}"
    about: dict[str, str] = {}
    for each in facts:
        about |= each.lifecycles.get((place, newest.kind), {})
    words += [f"{what}={about[what]}" for what in ("introduced", "deprecated", "removed", "use") if about.get(what)]
    return " ".join(words)


def _package(group: str) -> str:
    """Return the name of a group's package: `core`, `flowcontrol`, `rbac`."""
    first = group.partition(".")[0]
    return {"": "core", "internal": "apiserverinternal"}.get(first, first)


def _is_on(key: tuple[str, str, str], facts: Facts) -> bool:
    group, version, plural = key
    if "alpha" not in version and "beta" not in version:
        return True
    return (_package(group), version, plural) in facts.legacy


def _storage_version(key: tuple[str, str, str], kind: str, facts: Facts) -> str:
    group, shown = key[0], facts.surface.hashes.get(key)
    if shown is None:
        return ""
    versions = {each[1] for each in facts.surface.resources if each[0] == group} | {
        "v1",
        "v1beta1",
        "v1beta2",
        "v1alpha1",
    }
    return next((each for each in sorted(versions) if openapi.storage_hash(group, each, kind) == shown), "")


if __name__ == "__main__":
    main()
