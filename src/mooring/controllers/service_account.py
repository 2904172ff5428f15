"""Create the objects that every namespace has (ServiceAccount `default`, ConfigMap `kube-root-ca.crt`), and fill token
Secrets.

The ConfigMap has the certificate authority of this component's kubeconfig. A Secret of type
`kubernetes.io/service-account-token` names its account in an annotation; it gets a token, and is deleted with the
account.
"""

from base64 import b64encode
from contextlib import suppress

from msgspec import structs

from mooring.api import errors
from mooring.api.authentication_v1 import TokenRequestSpec
from mooring.api.core_v1 import ConfigMap, Namespace, Secret, ServiceAccount
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import Informer, PatchType
from mooring.controllers.controller import Context, Controller, split_key

DEFAULT = "default"
TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - the name of a type
ACCOUNT, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_LIFETIME_SECONDS = 10 * 365 * 86400


class ServiceAccountController(Controller):
    """The controller that creates `default` accounts and fills token Secrets; reconciles namespaces and Secrets."""

    name = "serviceaccount"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._namespaces: Informer[Namespace] = context.informers.of(Namespace)
        self._accounts: Informer[ServiceAccount] = context.informers.of(ServiceAccount)
        self._secrets: Informer[Secret] = context.informers.of(Secret)
        self._by_account = self._secrets.index("service account", _account_keys_of_token_secret)
        self.follow(self._namespaces)
        self._accounts.add_handler(added=self._enqueue_dependents, deleted=self._enqueue_dependents)
        self.follow(self._secrets, self._enqueue_token_secret)

    def _enqueue_dependents(self, account: ServiceAccount) -> None:
        if account.metadata.name == DEFAULT:
            self.queue.add(account.metadata.namespace)
        for secret in self._by_account.get(f"{account.metadata.namespace}/{account.metadata.name}"):
            self.enqueue(secret)

    def _enqueue_token_secret(self, secret: Secret) -> None:
        if secret.type == TOKEN_TYPE:
            self.enqueue(secret)

    async def reconcile(self, key: str) -> None:
        namespace, name = split_key(key)
        if namespace:
            await self._write_token(namespace, name)
        else:
            await self._ensure_default_account(name)

    async def _ensure_default_account(self, name: str) -> None:
        namespace = self._namespaces.get(name)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return
        if self._accounts.get(DEFAULT, name) is None:
            with suppress(errors.AlreadyExists):
                await self.client.create(ServiceAccount(metadata=ObjectMeta(name=DEFAULT, namespace=name)))

    async def _write_token(self, namespace: str, name: str) -> None:
        secret = self._secrets.get(name, namespace)
        if secret is None or secret.metadata.deletion_timestamp is not None:
            return
        meta = secret.metadata
        account = self._accounts.get(meta.annotations.get(ACCOUNT, ""), namespace)
        uid = meta.annotations.get(UID, "")
        if account is None or (uid and uid != account.metadata.uid):
            if uid:  # it was filled before: its account is gone
                await self.delete(secret)
            return
        if secret.data.get("token"):
            return
        spec = TokenRequestSpec(expiration_seconds=_LIFETIME_SECONDS)
        token = (await self.client.create_token(account.metadata.name, namespace, spec)).status.token
        body = {
            "metadata": {"resourceVersion": meta.resource_version, "annotations": {UID: account.metadata.uid}},
            "data": {"token": _encode_base64(token), "namespace": _encode_base64(namespace)},
        }
        await self.client.patch(Secret, name, body, namespace, type=PatchType.MERGE)


def _account_keys_of_token_secret(secret: Secret) -> list[str]:
    if secret.type != TOKEN_TYPE:
        return []
    return [f"{secret.metadata.namespace}/{secret.metadata.annotations.get(ACCOUNT, '')}"]


def _encode_base64(text: str) -> str:
    return b64encode(text.encode()).decode()


NAME = "kube-root-ca.crt"
DESCRIPTION = "kubernetes.io/description"
_TEXT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class RootCaController(Controller):
    """The controller that writes the ConfigMap `kube-root-ca.crt` into every namespace; reconciles namespaces."""

    name = "root-ca-certificate-publisher"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._data = {"ca.crt": context.client.certificate_authority.decode("ascii", "replace")}
        self._namespaces: Informer[Namespace] = context.informers.of(Namespace)
        self._maps: Informer[ConfigMap] = context.informers.of(ConfigMap)
        self.follow(self._namespaces)
        self._maps.add_handler(
            updated=lambda _, new: self._enqueue_namespace_of_map(new), deleted=self._enqueue_namespace_of_map
        )

    def _enqueue_namespace_of_map(self, found: ConfigMap) -> None:
        if found.metadata.name == NAME:
            self.queue.add(found.metadata.namespace)

    async def reconcile(self, key: str) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None or not self._data["ca.crt"]:
            return
        found = self._maps.get(NAME, key)
        if found is None:
            meta = ObjectMeta(name=NAME, namespace=key, annotations={DESCRIPTION: _TEXT})
            with suppress(errors.AlreadyExists):
                await self.client.create(ConfigMap(metadata=meta, data=self._data))
        elif found.data != self._data or not found.metadata.annotations.get(DESCRIPTION):
            annotations = {**found.metadata.annotations, DESCRIPTION: _TEXT}
            meta = structs.replace(found.metadata, annotations=annotations)
            await self.client.update(structs.replace(found, metadata=meta, data=self._data))
