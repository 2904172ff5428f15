"""The state that all handlers of object requests share: store, kinds, options, caches, admission, quotas, clock.

One `HandlerContext` serves all requests; a `Call` (``call.py``) is one request. Read next: ``verbs/reading.py``.
"""

from mooring.admission.accounting.evaluators import Evaluators
from mooring.admission.options import AdmissionOptions
from mooring.api.core_v1 import ResourceQuota
from mooring.apiserver.output.tables import Tables
from mooring.apiserver.registry.admission.chain import Chain
from mooring.apiserver.registry.admission.lookups import AdmissionLookups
from mooring.apiserver.registry.admission.write_admission import AccessChecks, WriteAdmission
from mooring.apiserver.registry.apply.field_managers import FieldManagers
from mooring.apiserver.registry.quota.accounting import QuotaAccounting
from mooring.apiserver.registry.services.allocation import ServiceAllocation
from mooring.apiserver.registry.storage.decoded_cache import DecodedCache
from mooring.apiserver.registry.storage.lowering_for_nodes import NodeLowering
from mooring.apiserver.registry.storage.selection import Selections
from mooring.apiserver.registry.storage.stored import StoredKinds
from mooring.base.clock import Clock, SystemClock
from mooring.store.kv import Store


class HandlerContext:
    """The state shared by all handlers of object requests."""

    def __init__(
        self,
        store: Store,
        kinds: StoredKinds,
        options: AdmissionOptions,
        clock: Clock | None = None,
        *,
        access: AccessChecks | None = None,
        extensions: Chain | None = None,
        decoded: DecodedCache | None = None,
        allocation: ServiceAllocation | None = None,
    ) -> None:
        self.store = store
        self.kinds = kinds
        self.options = options
        self.clock = clock or SystemClock()
        self.tables = Tables()
        self.allocation = allocation
        self.decoded = decoded or DecodedCache()
        self.selections = Selections()
        self.node_lowering = NodeLowering(store, options, self.decoded)
        self.lookups = lookups = AdmissionLookups.for_store(store, self.decoded)
        evaluators = Evaluators(
            options, self.clock.now, extended=lookups.extended_resources, pod_of=lookups.pod_of_claim
        )
        self.accounting = QuotaAccounting(store, kinds.find_by_type(ResourceQuota), evaluators, self.decoded)
        managers, access, chain = FieldManagers(kinds.scheme), access or AccessChecks(), extensions or Chain()
        self.admission = WriteAdmission(kinds.scheme, options, self.clock, lookups, access, managers, chain)
