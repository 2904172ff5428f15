"""Upgrade: whether an upgrade of the whole cluster gets through, with the timeline of its drains.

The answer is that of `mooring upgrade-check`. It is computed when a reader asks for it, for it plays every drain.
"""

from functools import partial

from mooring.advisor import upgrade
from mooring.advisor.releases import Crossing, CrossingError
from mooring.advisor.simulate.html.markup import card, tag, together
from mooring.advisor.snapshot import SnapshotError
from mooring.advisor.upgrade.page import sections
from mooring.dashboard import options
from mooring.dashboard.asking import Asked, BadRequestError, Fragment, Page
from mooring.dashboard.elements import choice, chooser, field, notice, soft

_MOST_AT_ONCE = 10


async def page(asked: Asked) -> Page:
    """Show `/upgrade`: the form, and the answer for `to=1.37`, `start=1.36`, `surge` and `unavailable`."""
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
    body = together(
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
        snapshot = await cluster.whole()
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
    found = await cluster.compute(partial(upgrade.check, subject))
    return Fragment(together(*sections(found)), found.tree())
