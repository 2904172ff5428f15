"""Names and uids for what a simulation makes: always the same for the same object, so that two runs can be compared."""

from hashlib import blake2b

from mooring.api.meta_v1 import Resource

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' letters for made-up names: no vowels and no look-alikes, so that no words come out."""


def told(kind: str, namespace: str, name: str) -> str:
    """An object for people, and for those who count by it: `Deployment shop/web`."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def told_of(obj: Resource) -> str:
    return told(obj.kind, obj.metadata.namespace, obj.metadata.name or obj.metadata.generate_name)


def uid_of(*parts: object) -> str:
    """A uid of the usual form that depends on the parts alone."""
    digits = blake2b("\0".join(map(str, parts)).encode(), digest_size=16).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def suffix_of(*parts: object) -> str:
    """Five letters, as Kubernetes adds them to `generateName`."""
    number = int.from_bytes(blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest(), "big")
    letters = []
    for _ in range(5):
        number, position = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[position])
    return "".join(letters)
