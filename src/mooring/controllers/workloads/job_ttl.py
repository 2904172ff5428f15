"""Delete finished Jobs after `ttlSecondsAfterFinished`, with their dependents."""

from mooring.api import errors, times
from mooring.api.batch_v1 import Job
from mooring.controllers.controller import Context, Controller
from mooring.controllers.workloads import job


class JobTTLController(Controller):
    """Reconcile finished Jobs."""

    name = "ttl-after-finished"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._jobs = context.informers.of(Job)
        self._jobs.add_handler(added=self._look, updated=lambda _, new: self._look(new))

    def _look(self, obj: Job) -> None:
        if self._expires_in(obj) is not None:
            self.enqueue(obj)

    def _expires_in(self, obj: Job) -> float | None:
        ttl = obj.spec.ttl_seconds_after_finished
        if ttl is None or obj.metadata.deletion_timestamp is not None:
            return None
        for each in obj.status.conditions:
            if each.type in (job.COMPLETE, job.FAILED) and each.status == "True" and each.last_transition_time:
                until = times.add_seconds(times.parse(each.last_transition_time), ttl)
                return (until - self.clock.now()).total_seconds()
        return None

    async def reconcile(self, key: str) -> float | None:
        found = self._jobs.by_key(key)
        left = self._expires_in(found) if found is not None else None
        if found is None or left is None or left > 0:
            return left
        meta = found.metadata
        try:
            fresh = await self.client.get(Job, meta.name, meta.namespace)
            left = self._expires_in(fresh)  # its TTL may have been changed
            if fresh.metadata.uid != meta.uid or left is None or left > 0:
                return left
            await self.client.delete(Job, meta.name, meta.namespace, uid=meta.uid, propagation_policy="Foreground")
        except errors.NotFound:
            return None
        return None
