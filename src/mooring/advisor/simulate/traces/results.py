"""What a replay came to: plain values, the same in Python, in files and as a run of an experiment."""

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
    """Of everything that went into it: an experiment does not repeat a run with the same one."""
    is_complete: bool = True
    numbers: dict[str, float]
    """How it stood at the end."""
    allocated: dict[str, dict[int, float]]
    """By resource: per cents that are allocated, by per cents that had been asked for."""
    samples: list[Sample]
    """Numbers over time."""
    pending: dict[str, int] = {}
    """How many pods still wait, by what they were told."""
    placements: dict[str, str] = {}
    """Where pods went, if that was to be kept."""
    elsewhere: int | None = None
    """How many pods the recorded cluster put on other nodes, if the trace says where it put them."""
    skipped: int = 0
    notes: list[str] = []
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0


def result_of(replay: Replay, cluster: str, workload: str, scheduler: str, notes: list[str] | None = None) -> Replayed:
    """What is known, whether the replay has ended or was interrupted."""
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
