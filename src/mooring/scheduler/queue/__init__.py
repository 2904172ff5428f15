"""Which pod is next: the pods that have no node, in three pools.

    active          to be tried, the most important first
    backoff         to be tried again when their time has come
    unschedulable   nothing has happened yet that could help them; or gated

    queued_pod           a pod in the queue, with what happened to it so far
    heap                 a heap from which anything can be taken
    hints                which events help which pods
    in_flight            the pods that are being tried, and what happened meanwhile
    unschedulable_pods   the unschedulable pool, where pods that would get the same hint stand together
    scheduling_queue     all of it together

Called by ``running/cycle.py`` (pop, requeue, done) and ``running/event_handlers.py`` (add, update, delete, move).
"""

from mooring.scheduler.queue.hints import Hints
from mooring.scheduler.queue.queued_pod import QueuedPod
from mooring.scheduler.queue.scheduling_queue import Backoffs, Pool, SchedulingQueue

__all__ = ["Backoffs", "Hints", "Pool", "QueuedPod", "SchedulingQueue"]
