"""The versions and gates of the cluster that is shown: given on the command line, told by its server, or assumed.

The only place of the dashboard that reads them. Called by ``watching.py``, and by ``views/versions.py`` for what they
were at which version.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mooring.advisor.audit import live
from mooring.advisor.audit.options import component_of, component_of_dump
from mooring.base.component import Component
from mooring.client import Client


@dataclass(frozen=True, slots=True)
class Running:
    """How a cluster runs."""

    component: Component
    notes: tuple[str, ...] = ()
    """What is only assumed."""


async def told_by(client: Client) -> Running:
    """As a live server shows it. Raises what the client does, and `QuestionError`."""
    return Running(*component_of(*await live.shown_by(client)))


def of_dump(kubelets: Iterable[str]) -> Running:
    """As a dump lets us guess from the versions of its kubelets."""
    return Running(*component_of_dump(kubelets))
