"""Versions and gates: what is on at which version, who uses it, what breaks on a rollback; and upgrades of the cluster.

What is said of objects is what `mooring audit` says; it is loaded when it is visible, since it reads all objects.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from mooring.advisor import upgrade
from mooring.advisor.audit import Audit, Finding, QuestionError, ask, audit, reports
from mooring.advisor.audit.results import Step
from mooring.advisor.releases import Crossing, CrossingError
from mooring.advisor.simulate.html.markup import Markup, card, concat, table, tag
from mooring.advisor.snapshot import SnapshotError
from mooring.advisor.upgrade.page import render_sections
from mooring.dashboard import options
from mooring.dashboard.asking import Asked, BadRequestError, Fragment, Model, Page
from mooring.dashboard.elements import and_more, badge, choice, chooser, command, field, fold_notices, notice, soft

_SHOWN = 200
_MOST_AT_ONCE = 10


class Versions(Model, frozen=True, kw_only=True):
    """The content of the page about versions and feature gates, without an audit."""

    emulation: str
    min_compatibility: str
    versions: list[str]
    gates: list[options.GateRow]
    notes: list[str]


def running_of(asked: Asked) -> options.Running:
    """Return the versions and gates of the cluster. Raise `BadRequestError` where they are not known."""
    try:
        return asked.cluster.running()
    except QuestionError as error:
        raise BadRequestError(str(error)) from error


async def page(asked: Asked) -> Page:
    """Answer `/versions`: gates by version; `to=1.36`, `compat=1.35`, `off=GATE`, `on=GATE` ask for an audit."""
    running = running_of(asked)
    versions = running.component.versions
    emulation, lowest = str(versions.emulation), str(versions.min_compatibility)
    model = Versions(
        emulation=emulation,
        min_compatibility=lowest,
        versions=options.emulated_versions(),
        gates=options.gate_rows(running),
        notes=list(running.notes),
    )
    asked_for = {name: asked.value(name) for name in ("to", "compat", "off", "on")}
    source = asked.links.to("versions", "audit", **asked_for)
    label = soft(f"The cluster runs as {emulation}, and objects may be read by servers from {lowest} on.")
    body = concat(
        *(notice(note) for note in running.notes),
        label,
        card("What would break?", _form(model, asked)),
        tag("div", soft("Looking at all objects …"), id="audit", data_src=source, aria_live="polite"),
        _gates(model),
    )
    return Page("What is on at which version, and who uses it?", body, model, "versions")


def _form(model: Versions, asked: Asked) -> Markup:
    same = ("", "as it is")
    gates = [(each.name, each.name) for each in model.gates]
    return chooser(
        field("Emulation version", choice("to", [same, *((each, each) for each in model.versions)], asked.value("to"))),
        field(
            "Minimum compatibility version",
            choice("compat", [same, *((each, each) for each in options.compatible())], asked.value("compat")),
        ),
        field("Switch off", choice("off", [("", "no gate"), *gates], asked.value("off"))),
        field("Switch on", choice("on", [("", "no gate"), *gates], asked.value("on"))),
        text="What breaks?",
        is_main=True,
        action=asked.links.to("versions", "audit"),
        data_into="audit",
        data_address=asked.links.to("versions"),
    )


def _gates(model: Versions) -> Markup:
    rows = [
        (
            concat(tag("b", each.name), tag("br"), tag("span", each.about, class_="soft")),
            badge("on", "good") if each.enabled else badge("off"),
            *(stage or "-" for stage in each.stages),
        )
        for each in model.gates
    ]
    head = ("Gate", "Here", *(f"{each}" for each in model.versions))
    label = soft("By default at each emulation version; a dash where the gate did not exist yet or is gone.")
    return card("Feature gates", label, table(head, rows, "Feature gates by version"))


async def audit_versions(asked: Asked) -> Fragment:
    """Answer `/versions/audit?to=1.36&off=GATE` with the report of `mooring audit`."""
    running, cluster = running_of(asked), asked.cluster
    off, on = ([asked.value(name)] if asked.value(name) else [] for name in ("off", "on"))
    try:
        question = ask(
            running.component,
            to_emulation=asked.value("to") or None,
            to_min_compatibility=asked.value("compat") or None,
            disable=off,
            enable=on,
        )
        snapshot = await cluster.read_snapshot()
    except QuestionError as error:
        return Fragment(notice(str(error)), {"problem": str(error)})
    except SnapshotError as error:
        raise BadRequestError(str(error)) from error
    settings, access = cluster.settings, cluster.access
    found = await cluster.compute(
        partial(audit, snapshot, question, profiles=settings.profiles, has_stored_versions=access.has_stored_versions)
    )
    return Fragment(_audit(found), found.tree())


def _audit(found: Audit) -> Markup:
    broken = [each for each in found.findings if each.breaks]
    changes = [
        tag("li", each.gate, " goes ", "on" if each.enabled else "off", f": {each.reason}" if each.reason else "")
        for each in found.gates
    ]
    mood = "bad" if broken else "good"
    verdict = tag("p", badge("breaks" if broken else "ok", mood), " ", reports.format_summary(found), class_="summary")
    title = "Who uses what?" if found.target is None else "What breaks?"
    return concat(
        card(
            title,
            verdict,
            fold_notices("notes", found.notes),
            tag("ul", *changes) if changes else "",
            _uses(found.findings) if found.target is None else "",
            _findings("Breaks", broken),
            _findings("Goes on", [each for each in found.findings if not each.breaks]),
        ),
        _steps(found.steps),
    )


def _uses(findings: Sequence[Finding]) -> Markup:
    counted = Counter(each.feature for each in findings)
    proposals = {each.feature: each.proposal for each in findings}
    rows = [(feature, proposals[feature] or "-", f"{number:,}") for feature, number in counted.most_common()]
    return table(("Gate or API", "Proposal", "Uses"), rows, "Uses by gate") if rows else soft("Nothing uses them.")


def _findings(title: str, findings: Sequence[Finding]) -> Markup:
    if not findings:
        return Markup("")
    rows = [
        (str(each.object), each.feature, tag("code", ": ".join(filter(None, (each.field, each.value)))), each.message)
        for each in findings[:_SHOWN]
    ]
    rest = and_more(len(findings) - _SHOWN, "; `mooring audit -o wide` has all")
    grid = table(("Object", "Because of", "Where", "What happens"), rows, title)
    is_open = "" if title == "Breaks" else None
    return tag("details", tag("summary", f"{title}: {len(findings):,}"), grid, rest, open=is_open)


def _steps(steps: Sequence[Step]) -> Markup:
    if not steps:
        return Markup("")
    made = []
    for each in steps:
        because = soft(each.proposal, ": ", tag("q", each.because)) if each.because else ""
        commands = [
            concat(
                soft("By hand: ", item.why) if not item.ready else "",
                command(item.run),
                soft(item.why) if item.ready and item.why else "",
            )
            for item in each.commands
        ]
        made.append(tag("li", tag("p", tag("b", each.title)), because, *commands))
    return card("What to do, in this order", tag("ol", *made, class_="suggestions"))


# -- upgrades of the whole cluster, as `mooring upgrade-check` answers


async def upgrade_page(asked: Asked) -> Page:
    """Answer `/upgrade`: the form, which `to=1.37`, `start=1.36`, `surge` and `unavailable` fill in."""
    versions = options.emulated_versions()
    running = str(asked.cluster.running().component.versions.emulation)
    numbers = [(str(number), str(number)) for number in range(_MOST_AT_ONCE + 1)]
    form = chooser(
        field("From", choice("start", [(each, each) for each in versions], asked.value("start") or running)),
        field("To", choice("to", [(each, each) for each in versions], asked.value("to") or versions[-1])),
        field("New nodes first", choice("surge", numbers, asked.value("surge") or "0")),
        field(
            "Nodes missing at once", choice("unavailable", [("", "default"), *numbers[1:]], asked.value("unavailable"))
        ),
        field("The way back too", choice("back", [("", "no"), ("yes", "yes")], asked.value("back"))),
        text="Check",
        is_main=True,
        action=asked.links.to("upgrade", "check"),
        data_into="check",
        data_address=asked.links.to("upgrade"),
    )
    wanted = {name: asked.value(name) for name in ("start", "to", "surge", "unavailable", "back")}
    source = {"data_src": asked.links.to("upgrade", "check", **wanted)} if asked.value("to") else {}
    body = concat(
        soft("Every node is drained in virtual time, by the scheduler's rules and the budgets. Nothing is changed."),
        card("Will the upgrade get through?", form),
        tag("div", soft("Playing every drain …") if source else "", id="check", aria_live="polite", **source),
    )
    return Page("Will the upgrade get through?", body, {"versions": versions}, "upgrade")


async def check_upgrade(asked: Asked) -> Fragment:
    """Answer `/upgrade/check?start=1.36&to=1.37&surge=1` with what `mooring upgrade-check` prints."""
    cluster = asked.cluster
    try:
        crossing = Crossing.between(asked.value("start"), asked.value("to"))
        snapshot = await cluster.read_snapshot()
    except CrossingError as error:
        return Fragment(notice(str(error)), {"problem": str(error)})
    except SnapshotError as error:
        raise BadRequestError(str(error)) from error
    drains = upgrade.DrainOptions(
        surge=asked.number("surge", 0, _MOST_AT_ONCE),
        max_unavailable=asked.number("unavailable", 0, _MOST_AT_ONCE) or None,
    )
    subject = upgrade.UpgradeRequest(
        snapshot, crossing, drains, cluster.settings, goes_back=asked.value("back") == "yes"
    )
    found = await cluster.compute(partial(upgrade.check_upgrade, subject))
    return Fragment(concat(*render_sections(found)), found.tree())
