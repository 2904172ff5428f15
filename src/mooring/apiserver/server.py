"""Build and run an API server: store, security, resources and the edge.

    async with await ApiServer.open(config) as server:
        await server.listen()
        print(server.kubeconfig())

`mooring apiserver` and `mooring up` run one; tests use `server.app` without listening. Read next: ``requests/app.py``.
"""

import asyncio
import socket
import ssl
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Self

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from mooring.admission.options import for_component as admission_options
from mooring.api.coordination_v1 import Lease
from mooring.api.scheme import Scheme
from mooring.apiserver.access.audit_log import AuditLog
from mooring.apiserver.access.authn import Authenticator, BootstrapTokens, TokenFile
from mooring.apiserver.access.bootstrap import bootstrap_rbac, publish_trust
from mooring.apiserver.access.certificate_checks import CertificateChecks
from mooring.apiserver.access.escalation import EscalationCheck
from mooring.apiserver.access.nodes.authorizer import NodeAuthorizer
from mooring.apiserver.access.nodes.restriction import NodeRestriction
from mooring.apiserver.access.pki import Pki, require_shared_keys, write_kubeconfig
from mooring.apiserver.access.policy_parameters import PolicyParameterChecks
from mooring.apiserver.access.rbac import RbacAuthorizer
from mooring.apiserver.access.reviews import Reviews
from mooring.apiserver.access.signer import Signer
from mooring.apiserver.access.tokens import IssuerPages, ServiceAccountTokens
from mooring.apiserver.edge.http_server import HttpServer, listen, tls_context
from mooring.apiserver.extension.converting import stored_with_conversion
from mooring.apiserver.extension.definitions import Definitions
from mooring.apiserver.extension.lookups import make_decide, namespace_labels
from mooring.apiserver.extension.policies import PolicyStep
from mooring.apiserver.extension.webhooks.caller import WebhookCaller, make_address_lookup
from mooring.apiserver.extension.webhooks.step import WebhookStep
from mooring.apiserver.messages import users
from mooring.apiserver.options import ServerConfig, for_component
from mooring.apiserver.output.discovery import Discovery
from mooring.apiserver.output.openapi import OpenApi
from mooring.apiserver.registry import HandlerContext, Resources, bootstrap
from mooring.apiserver.registry.admission.chain import Chain
from mooring.apiserver.registry.admission.metrics import AdmissionMetrics
from mooring.apiserver.registry.admission.write_admission import AccessChecks
from mooring.apiserver.registry.cluster.api_services import ApiServices
from mooring.apiserver.registry.cluster.kubernetes_service import KubernetesService, find_advertised_address
from mooring.apiserver.registry.cluster.loopback_client import LoopbackClient
from mooring.apiserver.registry.cluster.service_repair import Repair
from mooring.apiserver.registry.quota.recount import Recount
from mooring.apiserver.registry.services.allocation import ServiceAllocation
from mooring.apiserver.registry.storage.decoded_cache import DecodedCache
from mooring.apiserver.registry.storage.objects import Follower, Objects
from mooring.apiserver.registry.storage.stored import StoredKinds
from mooring.apiserver.registry.verbs.connecting import admit_token
from mooring.apiserver.requests.app import Application
from mooring.apiserver.requests.flow_control import FlowControl
from mooring.apiserver.requests.health import Check, Health, check_store
from mooring.apiserver.requests.limiter import RequestLimiter
from mooring.apiserver.requests.metrics import ServerMetrics
from mooring.apiserver.requests.skew import SkewReporter
from mooring.apiserver.requests.status_pages import StatusPageHandler
from mooring.apiserver.streams.kubelet import Kubelets
from mooring.apiserver.streams.streams import Streams
from mooring.base import logs
from mooring.base.clock import Clock, SystemClock
from mooring.base.metrics import build_registry
from mooring.base.tasks import run_until_one_ends
from mooring.store.etcd.config import explain_missing_grpc
from mooring.store.kv import Store
from mooring.store.memory import MemoryStore
from mooring.store.sqlite import SqliteStore
from mooring.store.tools.store_target import require_complete

log = logs.get(__name__)

_CLIENTS = {
    "admin": ("kubernetes-admin", (users.MASTERS,)),
    "scheduler": (users.SCHEDULER, ()),
    "controllers": (users.CONTROLLERS, ()),
}
"""The users, with groups, for which kubeconfig files are written into the data directory."""
_RENEWAL_SECONDS = 3600.0
_REACHED_AT = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - users may choose it
"""Addresses by which clients on this machine reach a server that listens on all of its addresses."""


class ApiServer:
    """An API server in this process: its store, security, handlers and listening socket, from `open` to `close`."""

    def __init__(self, config: ServerConfig, store: Store, clock: Clock, registry: CollectorRegistry) -> None:
        self._config = config
        self.store = store
        self._clock = clock
        self._pki = _pki(config, clock)
        self._address = (config.bind_address, config.port)
        self._draining = False
        self._hurry = asyncio.Event()
        self._started = False
        self._tasks: list[asyncio.Task[None]] = []
        self._http: HttpServer | None = None
        self._tls: ssl.SSLContext | None = None
        self._service: KubernetesService | None = None
        self.scheme = Scheme(config.component.versions, config.runtime_config, config.kinds)
        for warning in self.scheme.warnings:
            log.warning(warning)
        self._authorizer = RbacAuthorizer(store, self.scheme)
        self._node_authorizer = NodeAuthorizer(store, self._authorizer)
        self._audit = AuditLog(config.audit_log, clock) if config.audit_log else None
        self.app = self._build_application(registry)
        resources, network = self.app.resources, config.services
        is_shared = config.etcd is not None
        self._repair = Repair(LoopbackClient(resources), self._allocation, clock, network, is_shared=is_shared)

    @classmethod
    async def open(
        cls,
        config: ServerConfig,
        *,
        clock: Clock | None = None,
        registry: CollectorRegistry | None = None,
        store: Store | None = None,
    ) -> Self:
        """Open the store, build the server and write a cluster's initial objects; `listen` accepts connections."""
        clock = clock or SystemClock()
        async with AsyncExitStack() as undo:
            if store is None:
                store = await _open_store(config, clock)
                undo.push_async_callback(store.close)
                await require_complete(store)
            server = cls(config, store, clock, registry or build_registry(config.component))
            undo.push_async_callback(server.close)
            await server._bootstrap_cluster()
            undo.pop_all()
        return server

    def _build_application(self, registry: CollectorRegistry) -> Application:
        config, clock = self._config, self._clock
        versions, options = for_component(config.component), admission_options(config.component)
        options = replace(options, service_families=config.services.families)
        objects = Objects(self.store, self.scheme)
        accounts = ServiceAccountTokens(self._pki.signing_key(), objects, clock)
        tokens = TokenFile.read(config.token_auth_file) if config.token_auth_file else None
        authenticator = Authenticator(accounts, tokens, BootstrapTokens(objects, clock))
        limiter = RequestLimiter(config.limits, clock)
        metrics = ServerMetrics(registry, self.store, limiter)
        caller = self._webhooks = WebhookCaller(make_address_lookup(objects))
        decoded = DecodedCache()
        labels, decide = namespace_labels(self.store, decoded), make_decide(self._node_authorizer)
        admission_metrics = AdmissionMetrics(registry)
        policies = PolicyStep(self.store, self.scheme, decide, admission_metrics, decoded)
        webhooks = WebhookStep(self.store, self.scheme, caller, labels, decide, metrics=admission_metrics)
        checks = (
            EscalationCheck(self._authorizer),
            CertificateChecks(self._node_authorizer),
            PolicyParameterChecks(self.store, self.scheme, self._node_authorizer),
        )
        by_kind = {kind: each.check for each in checks for kind in each.kinds}
        kinds = StoredKinds(self.scheme, stored_with_conversion(caller))
        self._allocation = ServiceAllocation(self.store, kinds, clock, config.services.node_ports)
        context = HandlerContext(
            self.store,
            kinds,
            options,
            clock,
            access=AccessChecks(by_kind, NodeRestriction(self.store).check, self._node_authorizer.require_create),
            extensions=Chain([policies, webhooks], admission_metrics),
            decoded=decoded,
            allocation=self._allocation,
        )
        resources = Resources(context)
        kubelet_client = partial(self._pki.client, "apiserver-kubelet-client", users.KUBELET_CLIENT)
        reviews = Reviews(
            self.scheme,
            options,
            clock,
            authenticator=authenticator,
            authorizer=self._node_authorizer,
            tokens=accounts,
            admit=partial(admit_token, context),
        )
        shown = versions.status_pages
        pages = StatusPageHandler(shown, config.flags, clock.now) if shown is not None else None
        return Application(
            scheme=self.scheme,
            versions=versions,
            clock=clock,
            authenticator=authenticator,
            authorizer=self._node_authorizer,
            limiter=limiter,
            metrics=metrics,
            skew=SkewReporter(versions.expected, metrics.skew),
            health=Health({"store": self._store_check}, self._ready_checks()),
            discovery=Discovery(self.scheme),
            openapi=OpenApi(self.scheme, versions.shown),
            issuer=IssuerPages(accounts.public_key, self._external_url),
            answers={**reviews.answers, **config.answers(self.store)},
            resources=resources,
            streams=Streams(
                objects,
                self._node_authorizer,
                Kubelets(objects, clock, kubelet_client, config.kubelets, accounts),
                needs_create=versions.streams_need_create,
            ),
            definitions=Definitions(self.store, self.scheme, resources, clock),
            policies=policies,
            webhooks=webhooks,
            api_services=ApiServices(LoopbackClient(resources), self.scheme, clock),
            audit=self._audit,
            paths=pages.handlers if pages is not None else {},
        )

    def _ready_checks(self) -> dict[str, Check]:
        return {
            "store": lambda: self._store_check() or check_store(self.store),
            "room": lambda: "the store is full: it deletes only" if getattr(self.store, "is_full", False) else None,
            "roles": lambda: None if self._authorizer.synced else "roles and bindings have not been read yet",
            "bootstrap": lambda: None if self._started else "the server is starting",
            "shutdown": lambda: "the server is stopping" if self._draining else None,
        }

    def _store_check(self) -> str | None:
        failure = getattr(self.store, "failure", None)
        return str(failure) if failure else None

    async def _bootstrap_cluster(self) -> None:
        followers = {
            "roles and bindings": self._authorizer,
            "definitions of custom kinds": self.app.definitions,
            "admission policies": self.app.policies,
            "admission webhooks": self.app.webhooks,
        }
        for name, follower in followers.items():
            self._start_task(follower.run(), name)
        self._start_task(self._follow_leases(), "leases of components")
        calls = LoopbackClient(self.app.resources)
        longest = self._config.kubelets.signing_duration
        signer = Signer(self.store, self.scheme, calls, self._pki, self._clock, longest=longest)
        self._start_task(signer.run(), "signing of certificates")
        await bootstrap(self.app.resources)
        await asyncio.gather(
            bootstrap_rbac(self.app.resources),
            self._repair.prepare(),
            publish_trust(calls, self.authority, self._pki.proxy_authority.certificate, self._clock.now()),
        )
        for follower in followers.values():
            await follower.wait_for_sync()
        self._start_task(self._repair.run(), "addresses of Services")
        context = self.app.resources.context
        recount = Recount(context.accounting, self.store, context.kinds, self._clock)
        self._start_task(recount.run(), "usage of quotas")
        flow_control = FlowControl(self.store, self.scheme, calls, self._clock)
        self._start_task(flow_control.run(), "priorities of requests")
        self._started = True

    def _start_task(self, work: Coroutine[None, None, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    async def _follow_leases(self) -> None:
        """Report incompatible versions that components write into their Leases, as these change."""
        skew, kind = self.app.skew, self.scheme.hub_of(Lease)
        leases: Follower[Lease] = Follower(
            self.store, self.scheme, kind, lambda: skew.check_leases(leases.objects), namespace="kube-system"
        )
        await leases.run()

    # -- listening

    async def listen(self) -> None:
        """Accept connections, and write the kubeconfig files; raise ListenError or PkiError if that fails."""
        config = self._config
        listening = listen(config.bind_address, config.port)
        self._address = listening.getsockname()[:2]
        try:
            pair = self._pki.server(self._certificate_names())
            self._tls = tls_context(pair.certificate_file, pair.key_file, self.authority)
            self._write_kubeconfigs()
            self._http = HttpServer(
                self.app.serve,
                listening,
                self._tls,
                config.limits,
                identify=users.user_of_certificate,
                before_stop=self.app.resources.end_watches,
            )
            await self._http.start()
        except BaseException:
            listening.close()
            raise
        self._start_task(self._renew_certificates(), "renewal of certificates")
        network, calls, is_shared = config.services, LoopbackClient(self.app.resources), config.etcd is not None
        own = find_advertised_address(network.advertise_address, *self._address)
        if own is None:
            log.info("this machine has no address but its loopback: the Service kubernetes has no endpoints")
        self._service = KubernetesService(calls, self._clock, own, network.first, is_shared=is_shared)
        self._start_task(self._service.run(), "the Service kubernetes")

    @property
    def authority(self) -> bytes:
        """Return the certificate authority that verifies the server, in PEM."""
        return self._pki.authority.certificate

    @property
    def url(self) -> str:
        """Return the URL at which this machine's clients reach the server."""
        address, port = self._address
        host = _REACHED_AT.get(address, address)
        return _format_url(host, port)

    def _external_url(self) -> str:
        """Return the URL for clients on other machines; `url` if the server is reachable only from here."""
        given = self._config.services.advertise_address
        own = find_advertised_address(given, *self._address)
        if own is None or not (given or self._config.bind_address in _REACHED_AT):
            return self.url
        return _format_url(own.address, own.port)

    def kubeconfig(self, client: str = "admin") -> Path:
        """Return the path of the kubeconfig file for a client: `admin`, `scheduler` or `controllers`."""
        return self._config.data_dir / f"{client}.kubeconfig"

    def _certificate_names(self) -> Sequence[str]:
        config, services = self._config, self._config.services
        # the Service default/kubernetes leads here too: containers know the server by its cluster IP
        own = [socket.gethostname(), services.first, services.advertise_address, *config.tls_names]
        return own if config.bind_address in _REACHED_AT else [*own, config.bind_address]

    def _write_kubeconfigs(self) -> None:
        authority = self._pki.authority.certificate
        for name, (user, groups) in _CLIENTS.items():
            write_kubeconfig(self.kubeconfig(name), self.url, authority, user, self._pki.client(name, user, groups))

    async def _renew_certificates(self) -> None:
        """Periodically reissue certificates that expire soon, and use them for new connections."""
        while True:
            await self._clock.sleep(_RENEWAL_SECONDS)
            server = self._pki.server(self._certificate_names())
            if self._tls:
                self._tls.load_cert_chain(server.certificate_file, server.key_file)
            self._write_kubeconfigs()

    # -- the end

    async def stop(self) -> None:
        """Become unready, go on serving for the shutdown delay, then end watches and finish other requests."""
        self._draining = True
        if self._http:
            self._http.drain()
            if self._service:
                await self._service.leave()
            if self._config.shutdown_delay and not self._hurry.is_set():
                await run_until_one_ends(self._clock.sleep(self._config.shutdown_delay), self._hurry.wait())
            await self._http.stop()
            self._http = None

    def stop_at_once(self) -> None:
        """Let `stop` return without waiting for the delay or unfinished requests."""
        self._hurry.set()
        if self._http:
            self._http.stop_at_once()

    async def close(self) -> None:
        """Stop the server if it runs, and close the store."""
        await self.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._webhooks.close()
        await self.store.close()
        if self._audit:
            self._audit.close()
            self._audit = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _pki(config: ServerConfig, clock: Clock) -> Pki:
    return Pki(config.data_dir / "pki", clock, is_shared=config.etcd is not None)


async def _open_store(config: ServerConfig, clock: Clock) -> Store:
    if config.ephemeral:
        return await MemoryStore.open(clock=clock)
    if config.etcd:
        with explain_missing_grpc():
            from mooring.store.etcd.store import EtcdStore  # noqa: PLC0415 - a store in a file spares gRPC

        etcd = await EtcdStore.open(config.etcd, clock=clock)
        try:
            await require_shared_keys(_pki(config, clock), etcd.agree)
        except BaseException:
            await etcd.close()
            raise
        return etcd
    return await SqliteStore.open(config.data_dir, clock=clock, accept_loss=config.accept_lost_writes)


def _format_url(host: str, port: int) -> str:
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
