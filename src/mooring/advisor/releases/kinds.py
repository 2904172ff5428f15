"""API versions: those that objects are written in, those that clients use, and those in which objects are stored.

Called by ``auditor.py`` for every object.
"""

from collections.abc import Iterator

from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.releases.subjects import Subject, mapping
from mooring.api.history import Served
from mooring.api.kinds import GroupVersion


def findings(subject: Subject, crossing: Crossing) -> Iterator[Finding]:
    """Yield findings about API versions."""
    served = subject.served
    if served is None:
        yield from _long_gone(subject, crossing)
        return
    if not subject.reference.stored:
        yield from _written(subject, served, crossing)
        return
    yield from _stored(subject, served, crossing)
    yield from _by_clients(subject, crossing)


def _long_gone(subject: Subject, crossing: Crossing) -> Iterator[Finding]:
    removal = crossing.removed(subject.raw.api_version, subject.raw.kind)
    if removal is not None:
        release, use = removal
        text = f"{subject.raw.api_version} {subject.raw.kind} was removed in {release}" + (
            f"; use {use}" if use else ""
        )
        yield _finding(subject, Effect.NOT_SERVED, text)


def _written(subject: Subject, served: Served, crossing: Crossing) -> Iterator[Finding]:
    if crossing.serves(served, end=True):
        if crossing.deprecated(served):
            yield _finding(subject, Effect.DEPRECATED, f"{_name(served)} is deprecated{_instead(served, crossing)}")
        return
    if not crossing.knows(served, end=True):
        until = served.releases.until if crossing.goes_up else None
        when = f"was removed in {until}" if until else f"does not exist in {crossing.end}"
        yield _finding(subject, Effect.NOT_SERVED, f"{_name(served)} {when}{_instead(served, crossing)}")
    elif crossing.serves(served, end=False):
        text = f"{_name(served)} is served in {crossing.end} only with --runtime-config{_instead(served, crossing)}"
        yield _finding(subject, Effect.NOT_SERVED, text)
    else:
        where = "both releases" if crossing.knows(served, end=False) else crossing.end
        text = f"{_name(served)} is served only with --runtime-config={served.api_version}=true in {where}"
        yield _finding(subject, Effect.NEEDS_GATE, text)


def _stored(subject: Subject, served: Served, crossing: Crossing) -> Iterator[Finding]:
    versions = crossing.history.versions(served.group, served.plural)
    known = [each for each in versions if crossing.knows(each, end=True)]
    if not any(crossing.serves(each, end=True) for each in versions):
        text = f"{crossing.end} does not serve {served.kind} of {served.group or 'core'} in any version"
        if known:
            text += f" unless --runtime-config={known[-1].api_version}=true is set"
        if _is_the_servers(subject):
            yield _finding(subject, Effect.HARMLESS, f"{text}; the server made it for itself, and leaves it in etcd")
            return
        text += "; what is stored stays in etcd, and nobody can reach it or clean it up: delete it before"
        yield _finding(subject, Effect.UNREACHABLE, text)
        return
    stored = crossing.stored_as(served, end=False)
    storing = next((each for each in versions if each.version == stored), None)
    if storing is not None and not crossing.goes_up and not crossing.knows(storing, end=True):
        text = (
            f"{crossing.start} stores it as {storing.api_version}, which {crossing.end} cannot read: lists of "
            f"{served.plural} fail as a whole; let a server with --emulated-version={crossing.end} write it again first"
        )
        yield _finding(subject, Effect.UNREADABLE, text)


def _is_the_servers(subject: Subject) -> bool:
    labels = mapping(subject.metadata.get("labels"))
    return "ipaddress.kubernetes.io/managed-by" in labels or (
        (subject.reference.kind, subject.reference.name) == ("ServiceCIDR", "kubernetes")
    )


def _by_clients(subject: Subject, crossing: Crossing) -> Iterator[Finding]:
    seen = {subject.raw.api_version}
    written = [(subject.applied_version, "kubectl apply")] if subject.applied_version else []
    for version, who in (*written, *((version, manager) for manager, version in subject.managers)):
        if version in seen or not version:
            continue
        seen.add(version)
        used = crossing.history.kind(*GroupVersion.parse(version), subject.raw.kind)
        lost = used is not None and crossing.knows(used, end=False) and not crossing.knows(used, end=True)
        if used is not None and lost:
            text = f"{who} writes it as {version}, which {crossing.end} does not serve{_instead(used, crossing)}"
            yield _finding(subject, Effect.CLIENT, text)


def _instead(served: Served, crossing: Crossing) -> str:
    others = [each for each in crossing.history.versions(served.group, served.plural) if each is not served]
    usable = [each.api_version for each in others if crossing.serves(each, end=True)]
    if served.replacement in usable:
        return f"; use {served.replacement}"
    return f"; use {usable[0]}" if usable else ""


def _name(served: Served) -> str:
    return f"{served.api_version} {served.kind}"


def _finding(subject: Subject, effect: Effect, text: str) -> Finding:
    return Finding(
        object=subject.reference, field="apiVersion", value=subject.raw.api_version, effect=effect, message=text
    )
