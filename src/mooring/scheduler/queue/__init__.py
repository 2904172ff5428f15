"""The scheduling queue: the pods without a node, in three pools.

    active         ready to be tried, ordered by priority
    backoff        to be tried again when their backoff is over
    unschedulable  rejected, until an event occurs that may help; or gated

    queued_pod          a pod in the queue, with its history
    heap                a heap from which any entry can be removed
    cluster_events      changes of objects as the events that the queue receives
    hints               which events help which pods
    in_flight           the pods being tried, and the events that occurred meanwhile
    unschedulable_pods  the unschedulable pool, where pods with the same hints form a crowd
    scheduling_queue    the queue made of all these

Called by ``running/cycle.py`` (pop, requeue, retry) and ``running/event_handlers.py`` (add, update, delete, move).
"""

from mooring.scheduler.queue.hints import Hints
from mooring.scheduler.queue.queued_pod import QueuedPod
from mooring.scheduler.queue.scheduling_queue import Backoffs, Pool, SchedulingQueue

__all__ = ["Backoffs", "Hints", "Pool", "QueuedPod", "SchedulingQueue"]
