"""core/v1: pods, nodes and everything around them, grouped in modules; import types from here."""

from mooring.api.core_v1.configuration import *
from mooring.api.core_v1.container import *
from mooring.api.core_v1.event import *
from mooring.api.core_v1.namespace import *
from mooring.api.core_v1.node import *
from mooring.api.core_v1.placement import *
from mooring.api.core_v1.pod import *
from mooring.api.core_v1.pod_status import *
from mooring.api.core_v1.pod_volume import *
from mooring.api.core_v1.references import *
from mooring.api.core_v1.replication_controller import *
from mooring.api.core_v1.service import *
from mooring.api.core_v1.volume import *
from mooring.api.core_v1.volume_source import *
