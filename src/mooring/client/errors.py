"""What can go wrong between a client and its server. What the server itself says is in ``mooring.api.errors``.

ClientError
├── ConfigError            the kubeconfig cannot be used: the message says which file and why
├── UnservedKindError      the server does not serve a kind that the caller works with
├── CredentialsError       a token file or exec plugin gave no credentials
└── TransportError         the server was not reached, or its answer did not arrive
    ├── ConnectError       nothing was sent: repeat freely
    ├── NotLeaderError     nothing was sent: another instance may be at work
    ├── DisconnectedError  the connection broke; a write may or may not have happened
    ├── TooLongError       the answer is longer than was asked for; the request was done
    └── DeadlineError      no answer in time; a write may or may not have happened
"""


class ClientError(Exception):
    """A request could not be made or answered. The message says what to do about it."""


class ConfigError(ClientError):
    """The kubeconfig cannot be used: correct the file that the message names."""


class UnservedKindError(ClientError, ValueError):
    """The server does not serve a kind that the caller works with: switch it on, or leave the component out."""


class CredentialsError(ClientError):
    """A token file or an exec plugin gave no credentials: look at what the message quotes."""


class TransportError(ClientError):
    """The server was not reached, or its answer did not arrive."""


class ConnectError(TransportError):
    """No connection: nothing was sent, so it is safe to repeat."""


class NotLeaderError(TransportError):
    """This instance does not surely hold its lease, so nothing was sent: leave the work to the one that does."""


class DisconnectedError(TransportError):
    """The connection broke before the answer was complete: look before repeating a write."""


class TooLongError(TransportError):
    """The answer is longer than whoever asked can take; what was asked for may have been done."""


class DeadlineError(TransportError):
    """The answer took too long: look before repeating a write."""
