"""The errors between a client and its server. Errors that the server reports are in ``mooring.api.errors``.

ClientError
├── ConfigError            the kubeconfig cannot be used: the message says which file and why
├── UnservedKindError      the server does not serve a kind that the caller needs
├── CredentialsError       a token file or exec plugin gave no credentials
└── TransportError         the server was not reached, or its response did not arrive
    ├── ConnectError       nothing was sent: repeat freely
    ├── NotLeaderError     nothing was sent: another instance may be at work
    ├── DisconnectedError  the connection broke; a write may or may not have happened
    ├── TooLongError       the response is longer than was asked for; the request was executed
    └── DeadlineError      no response in time; a write may or may not have happened
"""


class ClientError(Exception):
    """A request could not be sent or answered. The message says what to do about it."""


class ConfigError(ClientError):
    """The kubeconfig cannot be used: correct the file that the message names."""


class UnservedKindError(ClientError, ValueError):
    """The server does not serve a kind that the caller needs: enable it, or leave the component out."""


class CredentialsError(ClientError):
    """A token file or an exec plugin gave no credentials: see the output that the message quotes."""


class TransportError(ClientError):
    """The server was not reached, or its response did not arrive."""


class ConnectError(TransportError):
    """No connection: nothing was sent, so it is safe to repeat."""


class NotLeaderError(TransportError):
    """This instance may have lost its lease, so nothing was sent: leave the work to the leader."""


class DisconnectedError(TransportError):
    """The connection broke before the response was complete: read the object before repeating a write."""


class TooLongError(TransportError):
    """The response is longer than the caller allows; the request may have been executed."""


class DeadlineError(TransportError):
    """The response took too long: read the object before repeating a write."""
