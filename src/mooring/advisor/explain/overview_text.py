"""An overview as text: the causes as soon as they are known, then the first verified remedy of each."""

from collections.abc import Iterator

from mooring.advisor.explain.overview import Group, Overview
from mooring.advisor.explain.text import Style, effect_of, plain
from mooring.api.quoting import one_line

_NAMED = 3


def cause_lines(found: Overview, *, verbose: bool = False, style: Style = plain) -> Iterator[str]:
    """Yield one numbered paragraph for each group."""
    if not found.groups:
        where = f"namespace {found.namespace} of {found.origin}" if found.namespace else found.origin
        every = "every pod that may be read" if found.notes else "every pod"
        yield style(f"{every} of {where} runs{'; -A looks at all namespaces' if found.namespace else ''}", "good")
    else:
        pods = "1 pod does" if found.pods == 1 else f"{found.pods:,} pods do"
        of = "1 workload" if found.owners == 1 else f"{found.owners:,} workloads"
        yield style(f"{pods} not run, of {of}, on {found.nodes:,} nodes", "title")
    for note in found.notes:
        yield style(f"  ({one_line(note)})", "quiet")
    for number, group in enumerate(found.groups, 1):
        yield f"{number:>3}. {style(_pods(group), 'bad')}: {one_line(group.summary)}"
        yield style(f"     {one_line(_members(group))}", "quiet")
        if verbose and group.message:
            yield style(f"     kube-scheduler's message: {one_line(group.message)}", "quiet")
    if found.left_out:
        yield f"     and {found.left_out:,} pods for other causes: see -n and --owner"


def remedy_lines(found: Overview, *, style: Style = plain) -> Iterator[str]:
    """Yield the first verified remedy of each group, by its number."""
    helped = [(number, group) for number, group in enumerate(found.groups, 1) if group.remedy is not None]
    if helped:
        yield ""
        yield style("What would help (each was tried)", "title")
    for number, group in helped:
        assert group.remedy is not None  # noqa: S101 - chosen above
        first = f" [{group.members[0]}]" if group.owners > 1 else ""
        yield f"{number:>3}. {one_line(group.remedy.summary)}{one_line(first)}"
        yield style(f"     {one_line(effect_of(group.remedy))}", "quiet")
        for change in group.remedy.changes:
            if change.command:
                yield style(f"     $ {one_line(change.command)}", "command")
        if group.remedy.caveat:
            yield style(f"     but: {one_line(group.remedy.caveat)}", "quiet")
    if found.groups:
        yield ""
        yield style("`mooring explain KIND NAMESPACE/NAME` says more about each workload.", "quiet")
    if found.release:
        yield style(f"(by the rules of Kubernetes {found.release}; --emulation-version chooses others)", "quiet")


def _pods(group: Group) -> str:
    return "1 pod" if group.pods == 1 else f"{group.pods:,} pods"


def _members(group: Group) -> str:
    named = [f"{each} ({each.pods})" if each.pods > 1 else str(each) for each in group.members[:_NAMED]]
    return ", ".join(named) + (f" and {group.owners - _NAMED} more" if group.owners > _NAMED else "")
