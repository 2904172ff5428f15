"""What can be wrong with flags and files when a server starts; each message is fit for a user."""

from mooring.api.scheme import SchemeError
from mooring.apiserver.audit_log import AuditLogError
from mooring.apiserver.http_server import ListenError
from mooring.apiserver.security.pki import PkiError
from mooring.apiserver.security.token_file import TokenFileError
from mooring.store.errors import StoreError

START_ERRORS = (AuditLogError, ListenError, PkiError, SchemeError, StoreError, TokenFileError)
