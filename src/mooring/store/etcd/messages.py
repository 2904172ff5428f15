"""The protobuf messages of etcd's API that the store uses, described here and built at import.

etcd's gRPC API is public and its field numbers never change. A message is one line below: each field with number and
type; `*` is repeated, and fields of a `oneof` end in a bar and its name.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "etcdserverpb"

_MESSAGES: dict[str, str] = {
    "ResponseHeader": "cluster_id=1:uint64 member_id=2:uint64 revision=3:int64 raft_term=4:uint64",
    "KeyValue": "key=1:bytes create_revision=2:int64 mod_revision=3:int64 version=4:int64 value=5:bytes lease=6:int64",
    "Event": "type=1:int32 kv=2:KeyValue prev_kv=3:KeyValue",
    "RangeRequest": "key=1:bytes range_end=2:bytes limit=3:int64 revision=4:int64 serializable=7:bool"
    " keys_only=8:bool count_only=9:bool",
    "RangeResponse": "header=1:ResponseHeader kvs=2:*KeyValue more=3:bool count=4:int64",
    "PutRequest": "key=1:bytes value=2:bytes lease=3:int64",
    "PutResponse": "header=1:ResponseHeader",
    "DeleteRangeRequest": "key=1:bytes range_end=2:bytes",
    "DeleteRangeResponse": "header=1:ResponseHeader deleted=2:int64",
    "RequestOp": "request_range=1:RangeRequest|request request_put=2:PutRequest|request"
    " request_delete_range=3:DeleteRangeRequest|request",
    "ResponseOp": "response_range=1:RangeResponse|response response_put=2:PutResponse|response"
    " response_delete_range=3:DeleteRangeResponse|response",
    "Compare": "result=1:int32 target=2:int32 key=3:bytes version=4:int64|target_union"
    " mod_revision=6:int64|target_union",
    "TxnRequest": "compare=1:*Compare success=2:*RequestOp failure=3:*RequestOp",
    "TxnResponse": "header=1:ResponseHeader succeeded=2:bool responses=3:*ResponseOp",
    "CompactionRequest": "revision=1:int64 physical=2:bool",
    "CompactionResponse": "header=1:ResponseHeader",
    "WatchCreateRequest": "key=1:bytes range_end=2:bytes start_revision=3:int64",
    "WatchRequest": "create_request=1:WatchCreateRequest|request_union",
    "WatchResponse": "header=1:ResponseHeader watch_id=2:int64 created=3:bool canceled=4:bool compact_revision=5:int64"
    " cancel_reason=6:string events=11:*Event",
    "LeaseGrantRequest": "TTL=1:int64 ID=2:int64",
    "LeaseGrantResponse": "header=1:ResponseHeader ID=2:int64 TTL=3:int64 error=4:string",
    "LeaseTimeToLiveRequest": "ID=1:int64",
    "LeaseTimeToLiveResponse": "header=1:ResponseHeader ID=2:int64 TTL=3:int64",
    "AuthenticateRequest": "name=1:string password=2:string",
    "AuthenticateResponse": "header=1:ResponseHeader token=2:string",
    "StatusRequest": "",
    "StatusResponse": "header=1:ResponseHeader version=2:string dbSize=3:int64 leader=4:uint64 errors=8:*string"
    " dbSizeInUse=9:int64",
}

EQUAL, GREATER = 0, 1  # Compare.result
VERSION, MOD = 0, 2  # Compare.target
DELETE = 1  # Event.type


def build_messages(package: str, messages: Mapping[str, str]) -> Callable[[str], Any]:
    """Build message classes from such descriptions; return a function that looks them up by name.

    The classes are built at run time, so type checkers do not know their fields.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"mooring/{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        described = file.message_type.add(name=name)
        oneofs: list[str] = []
        for field in fields.split():
            _add_field(package, described, oneofs, field)
    pool = descriptor_pool.DescriptorPool()  # private, so that definitions in other libraries do not collide
    pool.Add(file)

    @cache
    def class_of(name: str) -> Any:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))

    return class_of


def _add_field(package: str, message: descriptor_pb2.DescriptorProto, oneofs: list[str], text: str) -> None:
    text, _, oneof = text.partition("|")
    name, _, rest = text.partition("=")
    number, _, kind = rest.partition(":")
    field = message.field.add(name=name, number=int(number))
    scalar = f"TYPE_{kind.removeprefix('*').upper()}"
    field.label = field.LABEL_REPEATED if kind.startswith("*") else field.LABEL_OPTIONAL
    if scalar in descriptor_pb2.FieldDescriptorProto.Type.keys():  # noqa: SIM118 - an enum, not a mapping
        field.type = descriptor_pb2.FieldDescriptorProto.Type.Value(scalar)
    else:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{package}.{kind.removeprefix('*')}"
    if oneof:
        if oneof not in oneofs:
            oneofs.append(oneof)
            message.oneof_decl.add(name=oneof)
        field.oneof_index = oneofs.index(oneof)


message = build_messages(PACKAGE, _MESSAGES)
"""Return the class of a message by its name."""
