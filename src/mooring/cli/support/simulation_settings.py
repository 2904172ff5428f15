"""The control plane to simulate, from the flags of `mooring simulate` and `mooring dashboard`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mooring.base import component
from mooring.base.component import Component
from mooring.cli.support.cluster_source import SchedulerChoice

if TYPE_CHECKING:
    from mooring.advisor.simulate import Settings


def settings_of(running: Component, scheduler: SchedulerChoice, description: str = "") -> "Settings":
    """Return versions, gates and scheduler, described by their differences from the defaults unless given."""
    from mooring.advisor.simulate import options  # noqa: PLC0415 - `--help` should not wait for it

    if not description:
        changed = sorted(f"{name}={str(state.enabled).lower()}" for name, state in _switched(running))
        version = f"emulating {running.versions.emulation}"
        description = ", ".join((version, *changed))
    return options.for_component(running, scheduler.profiles, scheduler.registry, scheduler.backoffs, description)


def _switched(running: Component) -> Iterator[tuple[str, Any]]:
    plain = component.resolve(
        emulation=str(running.versions.emulation), min_compatibility=str(running.versions.min_compatibility)
    )
    for name, state in running.gates.states.items():
        before = plain.gates.states.get(name)
        if before is not None and before.enabled != state.enabled:
            yield name, state
