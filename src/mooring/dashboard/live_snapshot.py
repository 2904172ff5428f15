"""A snapshot that follows the cluster: its objects, the scheduler's engine over them, and the pods without a node.

Built from a snapshot and then updated object by object, so that a page about 50,000 pods need not read them all again.
It lives in one thread (``watching.py``), where every view reads it. Read next: ``views/overview.py``.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import Any

from mooring.advisor.explain import (
    Overview,
    SchedulingExplanation,
    Subject,
    explain,
    find_subject,
    load_engine,
    overview,
)
from mooring.advisor.explain.explanation import build_engine_for, can_use_shared_engine
from mooring.advisor.simulate import Settings
from mooring.advisor.simulate.utilisation import Usage, usage_of
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.engines import needs_node
from mooring.advisor.snapshot.objects import to_newest
from mooring.api import times
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.states import has_ended
from mooring.base.natural_sort import natural_key
from mooring.client import Change
from mooring.dashboard.history import History, Line
from mooring.scheduler.facade import ExplainEngine, NodeInfo
from mooring.scheduler.framework import SchedulerFeatures

MAX_CACHED_EXPLANATIONS = 64
"""Explanations are cached until something changes: several users may open the same pod."""


class LiveSnapshot:
    """The current objects of a cluster with the scheduler's engine over them, updated by changes."""

    def __init__(self, snapshot: Snapshot, settings: Settings, now: datetime) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.engine = load_engine(snapshot, settings)
        self.revision = 1
        """Rises with every change."""
        self.read_at = now
        self.waiting: dict[tuple[str, str], Pod] = {}
        """The pods without a node, by namespace and name."""
        self.running = self.ended = 0
        for pod in snapshot.all(Pod):
            self._count(pod, 1)
        self.history = History(snapshot, now)
        self.history.sample(now, self.running, len(self.waiting), self.engine.cluster)
        self._explained: dict[tuple[str, str, str, int], SchedulingExplanation] = {}
        self._overviews: dict[tuple[str, str], Overview] = {}

    # -- changes

    def apply(self, changes: Iterable[Change[Any]], now: datetime) -> None:
        """Update objects, engine, counts and history with changes of the cluster, and drop cached explanations."""
        put: list[Resource] = []
        removed: list[Resource] = []
        taken = [Change(old and to_newest(old), new and to_newest(new)) for old, new in changes]
        for old, new in taken:
            if new is not None:
                put.append(new)
                self._put(old, new)
            elif old is not None:
                removed.append(old)
                self._count(old, -1)
                self.engine.remove(old)
                self._forget_names(old, None)
        self.snapshot = self.snapshot.replace(put=put, remove=removed)
        self.revision += 1
        self.read_at = now
        self._explained.clear()
        self._overviews.clear()
        self.__dict__.pop("usage", None)
        self.history.record_changes(taken, now)
        self.history.sample(now, self.running, len(self.waiting), self.engine.cluster)

    def record(self, text: str, kind: str, name: str, now: datetime) -> None:
        """Add a line to the history about something that no object shows."""
        self.history.lines.append(Line(times.to_seconds(now), text, kind, name))
        self.revision += 1

    def _put(self, old: Resource | None, new: Resource) -> None:
        if isinstance(new, Pod):
            self._count(old, -1)
            self._count(new, 1)
            if old is not None and old.metadata.uid != new.metadata.uid:  # a new pod of the same name
                self.engine.remove(old)
            if new.spec.node_name:
                self.engine.put(new)
            elif new.status.nominated_node_name and needs_node(new):
                self.engine.nominations.put(new, new.status.nominated_node_name)
            else:
                self.engine.nominations.remove(new)
        else:
            self.engine.put(new)
            self._forget_names(old, new)

    def _forget_names(self, old: Resource | None, new: Resource | None) -> None:
        if isinstance(old or new, Node) and (old is None or new is None):
            self.__dict__.pop("node_names", None)

    def _count(self, pod: Resource | None, step: int) -> None:
        if not isinstance(pod, Pod):
            return
        key = (pod.metadata.namespace, pod.metadata.name)
        if has_ended(pod):
            self.ended += step
        elif pod.spec.node_name:
            self.running += step
        elif step < 0:
            self.waiting.pop(key, None)
        elif needs_node(pod):
            self.waiting[key] = pod

    # -- questions

    @property
    def unread(self) -> dict[str, str]:
        """The reasons why the user may read no nodes or no pods, by plural."""
        return {plural: why for plural in ("nodes", "pods") if (why := self.snapshot.why_unread(plural))}

    @cached_property
    def usage(self) -> Usage:
        """The requested and allocatable amounts of every resource, by node."""
        return usage_of(self.engine.cluster)

    @cached_property
    def node_names(self) -> list[str]:
        """The names of all nodes, in natural order."""
        return sorted((info.name for info in self.engine.cluster.node_infos()), key=natural_key)

    def node(self, name: str) -> NodeInfo | None:
        return self.engine.cluster.node(name)

    def subject(self, kind: str, namespace: str, name: str) -> Subject:
        """Return the pod or workload of a kind and name as the subject of an explanation. Raise `NotThereError`."""
        return find_subject(self.snapshot, kind, namespace, name, self.settings.admission)

    def engine_for(self, subject: Subject) -> tuple[ExplainEngine, SchedulerFeatures]:
        """Return the scheduler engine with which to explain a subject, and its scheduler features."""
        if can_use_shared_engine(subject):
            return self.engine, self.settings.features
        return build_engine_for(self.snapshot, subject, self.settings)

    def explain(self, kind: str, namespace: str, name: str, suggestions: int = 5) -> SchedulingExplanation:
        """Return the explanation that `mooring explain KIND NAMESPACE/NAME` prints, cached. Raise `NotThereError`."""
        key = (kind, namespace, name, suggestions)
        found = self._explained.get(key)
        if found is None:
            subject = self.subject(kind, namespace, name)
            found = explain(self.snapshot, subject, self.settings, suggestions=suggestions, engine=self.engine)
            if len(self._explained) >= MAX_CACHED_EXPLANATIONS:
                self._explained.clear()
            self._explained[key] = found
        return found

    def overview(self, namespace: str = "", owner: str = "") -> Overview:
        """Return the groups that `mooring explain -A` prints, without remedies; cached until something changes."""
        key = (namespace, owner)
        if key not in self._overviews:
            if len(self._overviews) >= MAX_CACHED_EXPLANATIONS:
                self._overviews.clear()
            self._overviews[key] = overview(
                self.snapshot, self.settings, namespace=namespace, owner=owner, engine=self.engine, remedies=False
            )
        return self._overviews[key]
