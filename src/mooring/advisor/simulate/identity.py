"""Deterministic names and uids of simulated objects, so that two runs can be compared."""

from hashlib import blake2b

from mooring.api.meta_v1 import Resource

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' letters for generated names: no vowels and no similar characters, so that no words are formed."""


def display_name(kind: str, namespace: str, name: str) -> str:
    """Format an object: `Deployment shop/web`."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def display_name_of(obj: Resource) -> str:
    return display_name(obj.kind, obj.metadata.namespace, obj.metadata.name or obj.metadata.generate_name)


def uid_of(*parts: object) -> str:
    """Return a uid derived from the parts."""
    digits = blake2b("\0".join(map(str, parts)).encode(), digest_size=16).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def suffix_of(*parts: object) -> str:
    """Return five letters, as Kubernetes appends to `generateName`."""
    number = int.from_bytes(blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest(), "big")
    letters = []
    for _ in range(5):
        number, position = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[position])
    return "".join(letters)
