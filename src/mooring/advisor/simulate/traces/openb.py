"""The openb trace of Alibaba's GPU cluster, as published with the FGD paper (USENIX ATC 2023): two kinds of tables.

    nodes   sn, cpu_milli, memory_mib, gpu, model
    pods    name, cpu_milli, memory_mib, num_gpu, gpu_milli and, where they are known, gpu_spec (models, `A|B`),
            qos, pod_phase, creation_time, deletion_time, scheduled_time in seconds

GPUs become the resource `alibabacloud.com/gpu-milli`, 1000 for a whole one; models a label of nodes and an annotation
of pods, named as in the paper's simulator. The lists are short and unordered, so they are sorted in memory.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from heapq import merge
from operator import attrgetter
from pathlib import Path

from mooring.advisor.simulate.traces.events import (
    Complaints,
    Event,
    NodeArrival,
    PodArrival,
    TimeChecker,
    build_node,
    build_pod,
    check_duration,
)
from mooring.advisor.simulate.traces.tables import read_header, read_rows

GPU, MODEL = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-card-model"
NODE_COLUMNS = frozenset({"sn", "cpu_milli", "memory_mib", "gpu", "model"})
POD_COLUMNS = frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"})
_WHOLE = 1000
_PODS = 1001
"""The maximum pods per node in the paper's simulator."""


def read_nodes(path: Path, complaints: Complaints) -> Iterator[NodeArrival]:
    for place, row in read_rows(path, complaints):
        with complaints.reading(place):
            cpu, memory, cards = (_parse_integer(row, name) for name in ("cpu_milli", "memory_mib", "gpu"))
            if not row["sn"]:
                raise ValueError("a node has no name")
            resources = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(_PODS)}
            resources |= {GPU: str(cards * _WHOLE)} if cards else {}
            labels = {"kubernetes.io/hostname": row["sn"]} | ({MODEL: row["model"]} if row["model"] else {})
            yield NodeArrival(0.0, build_node(row["sn"], resources, labels))


def read_pods(path: Path, complaints: Complaints, models: frozenset[str] = frozenset()) -> Iterator[PodArrival]:
    """Return the pods of a table in the order of creation. `models` are the GPU models of the nodes, if known."""
    found, times = list[PodArrival](), TimeChecker(ordered=False)
    for place, row in read_rows(path, complaints):
        with complaints.reading(place):
            event = _parse_pod(row)
            times.check(event.at, place)
            found.append(event)
            wanted = set(filter(None, row.get("gpu_spec", "").split("|")))
            if models and wanted and not wanted & models:
                text = f"no node has the model {row['gpu_spec']}: plugins that heed models find it no node"
                complaints.add_note(place, text)
    yield from sorted(found, key=attrgetter("at"))


def read_events(paths: tuple[Path, ...], complaints: Complaints) -> Iterator[Event]:
    """Yield the events of tables of the openb trace: nodes first, then pods."""
    known, pod_tables = set[str](), list[Path]()
    for path in paths:
        if set(read_header(path)) >= NODE_COLUMNS:
            for event in read_nodes(path, complaints):
                known.add(event.node.metadata.labels.get(MODEL, ""))
                yield event
        else:
            pod_tables.append(path)
    yield from merge(*(read_pods(path, complaints, frozenset(known)) for path in pod_tables), key=attrgetter("at"))


def _parse_pod(row: Mapping[str, str]) -> PodArrival:
    cpu, memory, cards, milli = (
        _parse_integer(row, name) for name in ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    )
    if not row["name"]:
        raise ValueError("a pod has no name")
    if cards > 1 and milli != _WHOLE:
        raise ValueError(f"the pod asks for {milli} thousandths of each of {cards} GPUs: only one can be shared")
    if milli > _WHOLE:
        raise ValueError(f"gpu_milli is {milli}, more than a whole GPU")
    created, deleted = _parse_seconds(row, "creation_time"), _parse_seconds(row, "deletion_time")
    started = _parse_seconds(row, "scheduled_time")
    started = created if started is None else started
    if deleted is not None and started is not None and deleted < started:
        raise ValueError(f"the pod is deleted at {deleted:g}, before it began at {started:g}")
    lasts = check_duration(deleted - started) if deleted is not None and started is not None else None
    resources = _format_resources(cpu, memory, cards * milli)
    annotations = {MODEL: row["gpu_spec"]} if row.get("gpu_spec") else {}
    return PodArrival(created or 0.0, build_pod(row["name"], "default", resources, annotations=annotations), lasts)


@lru_cache(4096)
def _format_resources(cpu: int, memory: int, gpu: int) -> tuple[tuple[str, str], ...]:
    amounts = (("cpu", f"{cpu}m"), ("memory", f"{memory}Mi"))
    return (*amounts, (GPU, str(gpu))) if gpu else amounts


def _parse_integer(row: Mapping[str, str], name: str) -> int:
    text = row[name].strip()
    try:
        number = int(float(text))
    except (ValueError, OverflowError):
        raise ValueError(f'{name} is "{text[:40]}", not a number') from None
    if number < 0:
        raise ValueError(f"{name} is {number}, a negative number")
    return number


def _parse_seconds(row: Mapping[str, str], name: str) -> float | None:
    text = row.get(name, "").strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'{name} is "{text[:40]}", not a number of seconds') from None
