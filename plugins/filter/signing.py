"""Filters for keys that sign snapshots."""

from collections.abc import Callable

from ansible.errors import AnsibleFilterError

from aqueduct.errors import AqueductError
from aqueduct.store import signing


def public_key(private: str) -> str:
    """`private | public_key`: the public key of a private one, both in PEM (Ed25519)."""
    try:
        return signing.public_pem(private)
    except AqueductError as error:
        raise AnsibleFilterError(error.labelled) from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"public_key": public_key}
