"""Many writes in one request: what `POST /writes`, Mooring's own batch endpoint, takes and answers.

    {"items": [{"method": "POST", "path": "/api/v1/namespaces/default/pods", "body": {"kind": "Pod", …}}, …]}
    {"items": [{"code": 201, "body": {"kind": "Pod", …}}, …]}

Writes of one template carry the document once, with `ROW` in place of the values that differ, and a row for each write:

    {"method": "PUT", "path": "/api/v1/namespaces/default/pods", "subresource": "status",
     "body": {"kind": "Pod", "metadata": {"name": "<row>", …}, "status": {"podIP": "<row>", …}},
     "rows": [{"name": "web-0", "podIP": "10.0.0.1"}, {"name": "web-1", "podIP": "10.0.0.2"}]}

With ``"subresource": "binding"`` and POST, each row binds a pod to a node (`nodeName`). Which fields a row may have is
declared in ``admission/rows.py``. ``client/batching.py`` sends batches,
``apiserver/requests/batch.py`` answers.
"""

import msgspec

PATH = "/writes"
JSON = "application/json"
NOTHING = msgspec.Raw(b"null")
ROW = "<row>"
"""Stands in a template for the value that each row has."""


class Row(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """The values of one object that differ between objects of one template."""

    name: str = ""
    uid: str = ""
    """The uid that an existing object must have; empty for any."""
    resource_version: str = ""
    """The resourceVersion that an existing object must have; empty for any."""
    creation_timestamp: str = ""
    node_name: str = ""
    """The node of a pod; of a Binding, its target."""
    target_node: str = ""
    """The node that a DaemonSet makes a pod for, in its node affinity."""
    hostname: str = ""
    pod_name_label: str = ""
    pod_index_label: str = ""
    zone_label: str = ""
    """The zone of a pod's node, which binding copies into the pod's labels."""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    container_ids: list[str] = msgspec.field(default_factory=list, name="containerIDs")


class Write(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One write, or several of one template."""

    method: str
    path: str
    """The path of the object; with rows, of the collection."""
    query: str = ""
    content_type: str = JSON
    accept: str = JSON
    body: msgspec.Raw = NOTHING
    omit_body: bool = False
    """Whether the answer may omit the object, because the client watches it anyway.

    The answer to a create still has the name, uid and resourceVersion, which only the server knows.
    """
    then_delete: msgspec.Raw = NOTHING
    """The options of a deletion after an update, in one transaction; the response is then the deletion's."""
    subresource: str = ""
    """With rows, the subresource that is written."""
    rows: list[Row] = []


class Writes(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request."""

    items: list[Write]


class WriteResult(msgspec.Struct, rename="camel", omit_defaults=True):
    """The outcome of one write."""

    code: int
    body: msgspec.Raw
    retry_after: str = ""
    warnings: list[str] = []


class WriteResults(msgspec.Struct):
    """The body of a response: an answer for each write and each row, in the order of the request."""

    items: list[WriteResult]
