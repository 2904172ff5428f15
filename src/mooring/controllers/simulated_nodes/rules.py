"""Read the annotations that define the behaviour of simulated pods.

    metadata:
      annotations:
        simulation.mooring.dev/start-seconds: "2"          # until the containers run; default 0
        simulation.mooring.dev/run-seconds: "30"           # until they end; default: by their command, or for ever;
                                                           # pods of a Job with an unknown command 5
        simulation.mooring.dev/failure-probability: "0.1"  # that they exit with the exit code; default 0
        simulation.mooring.dev/exit-code: "42"             # of failing containers; default 1
        simulation.mooring.dev/stop-seconds: "3"           # from deletion to the end, in the grace period; default 0

and on a Node `simulation.mooring.dev/failure: unreachable` (no heartbeats) or `not-ready` (a condition), which
``mooring.api.simulation`` reads. Logs and exec are simulated by the API server.
"""

import math
import random
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from mooring.api.core_v1 import Pod
from mooring.api.simulation import PREFIX
from mooring.api.states import controller_of

_JOB_SECONDS = 5.0


class PodRules(msgspec.Struct, frozen=True):
    """The behaviour of one pod."""

    start_seconds: float = 0.0
    run_seconds: float | None = None
    failure_probability: float = 0.0
    exit_code: int = 1
    stop_seconds: float = 0.0
    is_explicit: bool = False
    """Annotations set the duration or exit code, so that commands are ignored."""
    complaints: tuple[str, ...] = ()
    """Invalid values; the default applies instead."""

    def exit_code_of(self, pod: Pod, restarts: int) -> int:
        """Return the exit code of a run: random, but the same each time."""
        if not self.failure_probability:
            return 0
        chance = random.Random(f"{pod.metadata.uid}/{restarts}").random()  # noqa: S311 - a simulation, no secret
        return self.exit_code if chance < self.failure_probability else 0


def rules_of(pod: Pod) -> PodRules:
    """Return the rules in a pod's annotations."""
    annotations = pod.metadata.annotations
    runs = _JOB_SECONDS if _is_of_job(pod) else None
    if not any(key.startswith(PREFIX) for key in annotations):
        return PLAIN if runs is None else _OF_JOB
    complaints: list[str] = []
    start = _number(annotations, "start-seconds", complaints, 0.0)
    runs = _number(annotations, "run-seconds", complaints, runs)
    probability = _number(annotations, "failure-probability", complaints, 0.0, maximum=1.0)
    code = _number(annotations, "exit-code", complaints, 1.0, maximum=255.0)
    stop = _number(annotations, "stop-seconds", complaints, 0.0)
    explicit = any(PREFIX + name in annotations for name in ("run-seconds", "failure-probability", "exit-code"))
    return PodRules(start or 0.0, runs, probability or 0.0, int(code or 1), stop or 0.0, explicit, tuple(complaints))


_ABSENT_TAGS = frozenset({"404", "missing", "nonexistent", "non-existent", "does-not-exist"})


@lru_cache(maxsize=1024)
def is_absent(image: str) -> bool:
    """Return whether an image cannot be pulled: by its tag, or by the reserved domain `invalid`.

    >>> is_absent("web:404"), is_absent("registry.invalid/web"), is_absent("web:1")
    (True, True, False)
    """
    repository, _, tag = image.partition("@")[0].rpartition(":")
    if not repository or "/" in tag:
        repository, tag = image.partition("@")[0], ""
    return tag in _ABSENT_TAGS or "invalid" in repository.partition("/")[0].partition(":")[0].split(".")


def _number(
    annotations: Mapping[str, str], name: str, complaints: list[str], default: float | None, maximum: float = 1e9
) -> float | None:
    text = annotations.get(PREFIX + name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if 0 <= number <= maximum:
        return number
    complaints.append(f"{PREFIX}{name}: {text!r} is not a number from 0 to {maximum:g}, and is ignored")
    return default


def _is_of_job(pod: Pod) -> bool:
    owner = controller_of(pod.metadata)
    return owner is not None and owner.kind == "Job"


PLAIN = PodRules()
_OF_JOB = PodRules(run_seconds=_JOB_SECONDS)
