"""Errors in flags and files at the start of a server; each message is fit for a user."""

from mooring.api.scheme import SchemeError
from mooring.apiserver.access.audit_log import AuditLogError
from mooring.apiserver.access.pki import PkiError
from mooring.apiserver.access.token_file import TokenFileError
from mooring.apiserver.edge.http_server import ListenError
from mooring.store.errors import StoreError

START_ERRORS = (AuditLogError, ListenError, PkiError, SchemeError, StoreError, TokenFileError)
