"""Format an audit as text for people, and as a lint report for CI.

Names and values come from untrusted objects: control characters are escaped for the terminal. Called by the command
line.
"""

import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

from mooring.advisor.audit.results import Audit, Effect, Finding, ObjectReference, Observation, Rehearsal, Step
from mooring.advisor.lint import rules as lint_rules
from mooring.advisor.lint.reports import one_line
from mooring.advisor.lint.rules import Rule, Severity

_MOST_LINES = 20
Tone = Literal["bad", "good", "title", "quiet"]
Paint = Callable[[str, Tone], str]

_ABOUT = {
    Effect.CREATE_REJECTED: ("A001", "create-rejected", "The server refuses to create it, or what is made from it"),
    Effect.STUCK_PENDING: ("A002", "stuck-pending", "A pending pod finds no node any more"),
    Effect.EVICTED: ("A003", "evicted", "A running pod is evicted"),
    Effect.FIELD_DROPPED: ("A004", "field-dropped", "The server drops a field of what is created"),
    Effect.UPDATE_REJECTED: ("A005", "update-rejected", "A stored object can no longer be changed"),
    Effect.NEVER_MATCHES: ("A006", "never-matches", "A node affinity matches no node any more"),
    Effect.NOT_SERVED: ("A007", "not-served", "The API version is no longer served"),
    Effect.STORED_UNREADABLE: ("A008", "stored-unreadable", "What is stored cannot be read by an older server"),
    Effect.KEPT: ("A020", "kept", "The object stays; another one like it is refused"),
    Effect.KEEPS_RUNNING: ("A021", "keeps-running", "A running pod stays where it is"),
    Effect.STILL_SCHEDULABLE: ("A022", "still-schedulable", "A pending pod finds a node all the same"),
    Effect.ALREADY_PENDING: ("A023", "already-pending", "A pending pod finds no node now either"),
    Effect.FINISHED: ("A024", "finished", "Nothing is made from it any more"),
    Effect.ALREADY_OFF: ("A025", "already-off", "What it uses is off now as well"),
    Effect.UNAFFECTED: ("A029", "unaffected", "It uses something that gates or versions decide about, and may go on"),
}
RULES: dict[Effect, Rule] = {
    effect: Rule(number, name, Severity.ERROR if number < "A020" else Severity.INFO, about)
    for effect, (number, name, about) in _ABOUT.items()
}
"""By effect on an object, its lint rule. ``docs/audit.md`` lists them (a test compares); numbers are never reused."""


def as_lint_report(audit: Audit) -> lint_rules.Report:
    """Return the findings of an audit as a lint report, to format as JSON, SARIF, JUnit and so on."""
    ruled = ((RULES[each.effect], each) for each in audit.findings)
    found = (
        (rule, rule.severity, each.object, each.field, each.message or f"uses {each.feature}") for rule, each in ruled
    )
    return build_lint_report(audit.objects, found)


def build_lint_report(
    objects: int, found: Iterable[tuple[Rule, Severity, ObjectReference, str, str]]
) -> lint_rules.Report:
    """Return a lint report with the rule, severity, object, field and message of each finding."""
    findings = [
        lint_rules.Finding(rule, severity, ref.file, ref.line or 1, 1, str(ref), field, text)
        for rule, severity, ref, field, text in found
    ]
    files = list(dict.fromkeys(finding.file for finding in findings if finding.file))
    return lint_rules.Report(findings=findings, files=files, documents=objects)


def format_lines(audit: Audit, paint: Paint, *, wide: bool = False) -> Iterator[str]:
    """Yield the audit's report for a terminal. Findings of one controller or API version share a line unless `wide`."""
    yield f"{one_line(audit.origin)}: {audit.objects} objects"
    yield f"  now   {audit.current.arguments()}"
    if audit.target is not None:
        yield f"  then  {audit.target.arguments()}"
    for note in audit.notes if wide else ():
        yield f"  note  {one_line(note)}"
    shown = [f for f in audit.findings if wide or audit.target is None or f.effect is not Effect.UNAFFECTED]
    for feature in dict.fromkeys(f.feature for f in shown):
        yield ""
        yield from _feature_lines(audit, feature, [f for f in shown if f.feature == feature], paint, wide=wide)
    quiet = [change for change in audit.gates if change.gate not in {f.feature for f in shown}]
    if quiet:
        yield ""
    for change in quiet:
        yield f"{_gate_title(audit, change.gate)}: no object depends on it"
    yield from format_steps(audit.steps, paint)
    yield from format_rehearsal(audit.rehearsal, paint, wide=wide)


def format_summary(audit: Audit) -> str:
    """Return the last line of the audit's report: the numbers of objects and findings."""
    using = len({f.object for f in audit.findings if f.feature})
    unread = f"; not looked at, for want of rights: {', '.join(audit.unread)}" if audit.unread else ""
    if audit.target is None:
        return f"{len(audit.findings)} uses in {using} of {audit.objects} objects{unread}"
    broken = len({f.object for f in audit.findings if f.breaks})
    nothing = "nothing breaks of what could be read" if unread else "nothing breaks"
    verdict = f"{broken} of {audit.objects} objects break" if broken else nothing
    return f"{verdict}; {using} use something that gates or versions decide about{unread}"


def _gate_title(audit: Audit, feature: str) -> str:
    change = next((each for each in audit.gates if each.gate == feature), None)
    proposal = next((f.proposal for f in audit.findings if f.feature == feature and f.proposal), "")
    proposal = proposal or (change.proposal if change else "")
    name = f"{feature} ({proposal})" if proposal else feature
    return f"{name} goes {'on' if change.enabled else 'off'}: {change.reason}" if change else name


def _feature_lines(audit: Audit, feature: str, found: Sequence[Finding], paint: Paint, *, wide: bool) -> Iterator[str]:
    yield paint(_gate_title(audit, feature), "title")
    for effect in sorted({f.effect for f in found}, key=lambda each: RULES[each].id):
        for group in group_findings(
            [f for f in found if f.effect is effect], lambda each: None if wide else _grouping_key(each)
        ):
            first = group[0]
            subjects = format_objects([each.object for each in group])
            yield f"  {_format_effect(first, paint)}  {subjects}"
            used = f"{first.field}: {first.value}" if first.value else first.field
            if used:
                yield f"          {one_line(used)}" + (f"  (from {first.needs} on)" if first.needs and wide else "")
            if first.message:
                yield from (f"          {paint(one_line(line), 'quiet')}" for line in first.message.split("\n"))


def _format_effect(finding: Finding, paint: Paint) -> str:
    if finding.breaks:
        return paint("breaks", "bad")
    return paint("  uses" if finding.effect is Effect.UNAFFECTED else "    ok", "good")


def _grouping_key(finding: Finding) -> Hashable | None:
    if not finding.object.owner and (finding.field != "apiVersion" or finding.object.file):
        return None
    return finding.object.kind, finding.object.owner, finding.field, finding.value, finding.effect


def format_objects(objects: Sequence[ObjectReference]) -> str:
    """Return a line with the first of several objects, its controller and file, and the number of the others."""
    first = objects[0]
    more = f" and {len(objects) - 1} more" if len(objects) > 1 else ""
    owner = f" of {first.owner}" if first.owner else ""
    place = f" ({first.file}:{first.line})" if first.file else ""
    return one_line(f"{first}{more}{owner}{place}")


F = TypeVar("F")


def group_findings(found: Sequence[F], key: Callable[[F], Hashable | None]) -> list[list[F]]:
    """Group findings by the result of `key`, keeping their order; a finding without a key forms its own group."""
    groups: dict[Hashable, list[F]] = {}
    for index, each in enumerate(found):
        same = key(each)
        groups.setdefault(index if same is None else same, []).append(each)
    return list(groups.values())


def format_steps(steps: Sequence[Step], paint: Paint) -> Iterator[str]:
    """Yield the lines of the report for upgrade or downgrade steps, with their commands."""
    if not steps:
        return
    yield ""
    yield paint("What to do, in this order", "title")
    for number, step in enumerate(steps, 1):
        yield f"  {number}. {one_line(step.title)}"
        if step.because:
            text = f'{step.proposal}: "{step.because}"' if step.proposal else step.because
            yield from textwrap.wrap(text, 110, initial_indent="     ", subsequent_indent="     ")
        for command in step.commands:
            note = f"  # {command.why}" if command.why and command.ready else ""
            if not command.ready:
                yield f"     {paint('by hand', 'bad')}: {one_line(command.why)}"
            yield f"     $ {one_line(command.run)}{paint(one_line(note), 'quiet')}"
        if step.rollback:
            yield f"     {paint('back', 'good')}: {one_line(step.rollback)}"


def format_rehearsal(rehearsal: Rehearsal | None, paint: Paint, *, wide: bool) -> Iterator[str]:
    """Yield report lines on the trial of the target flags on a copy of the cluster; none if there was no trial."""
    if rehearsal is None:
        return
    yield ""
    yield paint(f"Rehearsal on a copy of {rehearsal.objects} objects, {rehearsal.seconds:.1f} s", "title")
    yield from (f"  note    {one_line(note)}" for note in rehearsal.notes)
    shown = rehearsal.broken if wide else rehearsal.broken[:_MOST_LINES]
    for each in shown:
        yield f"  {paint('broke', 'bad')}   {_format_observation(each)}"
    if len(shown) < len(rehearsal.broken):
        yield f"  … and {len(rehearsal.broken) - len(shown)} more, with -o wide"
    for each in rehearsal.differences:
        yield (
            f"  {paint('differs', 'bad')} {_format_observation(each)} (the prediction was: {one_line(each.predicted)})"
        )
    if not rehearsal.differences:
        yield f"  {paint('all as predicted', 'good')}"


def _format_observation(each: Observation) -> str:
    detail = f": {each.detail}" if each.detail else ""
    return one_line(f"{each.object}, {each.subject}: {each.observed}{detail}")
