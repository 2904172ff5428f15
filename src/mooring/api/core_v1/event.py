"""Event: a report of something that happened. Components write it as events.k8s.io/v1, kubectl reads it as core/v1."""

from mooring.api.base import Int32, Object, always, required
from mooring.api.core_v1.references import ObjectReference
from mooring.api.meta_v1 import ObjectMeta, Resource


class EventSource(Object):
    """The component and host that report an event."""

    component: str = ""
    host: str = ""
    """The node on which it runs."""


class EventSeries(Object):
    """Repetitions of an event."""

    count: Int32 = 0
    """How often it happened."""
    last_observed_time: str | None = always(lambda: None)
    """When it happened last."""


class Event(Resource):
    """A report of something that happened to an object."""

    metadata: ObjectMeta = required(ObjectMeta)
    """Name, namespace and everything else that all objects have."""
    involved_object: ObjectReference = required(ObjectReference)
    """The object that it is about."""
    reason: str = ""
    """The reason of the event, in CamelCase."""
    message: str = ""
    source: EventSource = always(EventSource)
    first_timestamp: str | None = always(lambda: None)
    """When it happened first."""
    last_timestamp: str | None = always(lambda: None)
    """When it happened last."""
    count: Int32 = 0
    """How often it happened."""
    type: str = ""
    """Normal or Warning."""
    event_time: str | None = always(lambda: None)
    """When it happened, to the microsecond."""
    series: EventSeries | None = None
    action: str = ""
    """The action taken on the object."""
    related: ObjectReference | None = None
    """Another object that has to do with it."""
    reporting_component: str = always(str)
    """The controller that reports it, such as default-scheduler."""
    reporting_instance: str = always(str)
    """The instance of that controller."""
