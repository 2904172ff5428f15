"""events.k8s.io/v1: the shape in which components write events; stored and listed together with core/v1 Events."""

from mooring.api.base import Int32, Object, always, required
from mooring.api.core_v1 import EventSource, ObjectReference
from mooring.api.meta_v1 import Resource


class EventSeries(Object):
    """Repetitions of an event."""

    count: Int32 = required(int)
    """How often it happened."""
    last_observed_time: str | None = required(lambda: None)
    """When it happened last, to the microsecond."""


class Event(Resource):
    """A report of something that happened to an object."""

    event_time: str | None = required(lambda: None)
    """When it happened first, to the microsecond."""
    series: EventSeries | None = None
    reporting_controller: str = ""
    """The controller that reports it, such as default-scheduler."""
    reporting_instance: str = ""
    """The instance of that controller."""
    action: str = ""
    """The action taken on the object."""
    reason: str = ""
    """The reason of the action, in CamelCase."""
    regarding: ObjectReference = always(ObjectReference)
    """The object that it is about."""
    related: ObjectReference | None = None
    """Another object that has to do with it."""
    note: str = ""
    """A sentence for people."""
    type: str = ""
    """Normal or Warning."""
    deprecated_source: EventSource = always(EventSource)
    deprecated_first_timestamp: str | None = always(lambda: None)
    """The first time in the older shape."""
    deprecated_last_timestamp: str | None = always(lambda: None)
    """The last time in the older shape."""
    deprecated_count: Int32 = 0
    """The count in the older shape."""
