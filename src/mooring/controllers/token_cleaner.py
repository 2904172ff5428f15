"""Delete expired bootstrap tokens; the API server already refuses them."""

from contextlib import suppress

from mooring.api import bootstrap_tokens, errors
from mooring.api.core_v1 import Secret
from mooring.client import Informer
from mooring.controllers.controller import Context, Controller


class TokenCleaner(Controller):
    """Reconcile bootstrap token Secrets, by key."""

    name = "token-cleaner"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._tokens: Informer[Secret] = context.informers.of(
            Secret, bootstrap_tokens.NAMESPACE, field_selector=f"type={bootstrap_tokens.TYPE}"
        )
        self._tokens.add_handler(added=self.enqueue, updated=lambda _, new: self.enqueue(new))

    async def reconcile(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        secret = self._tokens.get(name, namespace)
        end = bootstrap_tokens.expiration(secret) if secret else None
        if end is None:
            return None
        left = (end - self.clock.now()).total_seconds()
        if left > 0:
            return left
        with suppress(errors.NotFound):
            await self.client.delete(Secret, name, namespace)
        return None
