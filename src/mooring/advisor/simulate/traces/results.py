"""The result of a replay: plain values, the same in Python, in files and in experiments."""

from typing import Literal

import msgspec

from mooring.advisor.simulate.traces.measures import Sample
from mooring.advisor.simulate.traces.replaying import Replay

API_VERSION = "advisor.mooring.dev/v1"


class Replayed(msgspec.Struct, rename="camel", kw_only=True):
    api_version: str = API_VERSION
    kind: Literal["Replay"] = "Replay"
    cluster: str
    workload: str
    scheduler: str
    seed: int
    digest: str = ""
    """A digest of all inputs: an experiment does not repeat a run with the same one."""
    is_complete: bool = True
    numbers: dict[str, float]
    """Numbers at the end."""
    allocated: dict[str, dict[int, float]]
    """By resource: allocated percent by requested percent."""
    samples: list[Sample]
    pending: dict[str, int] = {}
    """Pending pods by message."""
    placements: dict[str, str] = {}
    """Nodes of pods, if recorded."""
    elsewhere: int | None = None
    """How many pods got another node than in the recorded cluster, if known."""
    skipped: int = 0
    notes: list[str] = []
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0


def result_of(replay: Replay, cluster: str, workload: str, scheduler: str, notes: list[str] | None = None) -> Replayed:
    """Build the result of a finished or interrupted replay."""
    recorded, placements = replay.recorded, replay.placements
    odd = [f"{each.number:,} {what}: the first was {each.first}" for what, each in replay.tally.odd.items()]
    elsewhere = sum(placements.get(pod, "") != node for pod, node in recorded.items()) if recorded else None
    return Replayed(
        cluster=cluster,
        workload=workload,
        scheduler=scheduler,
        seed=replay.options.seed,
        is_complete=replay.is_complete,
        numbers=replay.numbers(),
        allocated={resource: curve.points() for resource, curve in replay.tally.curves.items()},
        samples=replay.tally.samples,
        pending=_pending(replay),
        placements=placements,
        elsewhere=elsewhere,
        notes=[*(notes or []), *odd],
    )


def _pending(replay: Replay) -> dict[str, int]:
    found: dict[str, int] = {}
    world = replay.world
    if len(world.pods) > world.running:
        for pod in world.pods.values():
            if not pod.node:
                message = world.message_of(pod) or "not tried yet"
                found[message] = found.get(message, 0) + 1
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))
