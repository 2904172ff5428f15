"""Many writes in one request: what `POST /writes`, Mooring's own, takes and answers.

    {"items": [{"method": "POST", "path": "/api/v1/namespaces/default/pods", "body": {"kind": "Pod", …}}, …]}
    {"items": [{"code": 201, "body": {"kind": "Pod", …}}, …]}

``client/grouped.py`` sends them, ``apiserver/requests/batch.py`` answers.
"""

import msgspec

PATH = "/writes"
JSON = "application/json"
NOTHING = msgspec.Raw(b"null")


class Write(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One of the writes."""

    method: str
    path: str
    query: str = ""
    content_type: str = JSON
    accept: str = JSON
    body: msgspec.Raw = NOTHING
    unread: bool = False
    """Whether the answer need not have the object: who watches it anyway spares making, sending and reading it.

    Of a new object name, uid and version are told nevertheless, for nobody else knows them.
    """
    then_delete: msgspec.Raw = NOTHING
    """For an update, the options of a deletion that follows at once where it is done, as kubelets take leave of pods.

    The answer is then the deletion's.
    """


class Writes(msgspec.Struct, forbid_unknown_fields=True):
    """What is posted."""

    items: list[Write]


class Answer(msgspec.Struct, rename="camel", omit_defaults=True):
    """What became of one write."""

    code: int
    body: msgspec.Raw
    retry_after: str = ""
    warnings: list[str] = []


class Answers(msgspec.Struct):
    """What comes back, in the order of what was sent."""

    items: list[Answer]
