#!/usr/bin/python
"""Ansible module: the host's part of the action host_keys; it makes keys, which never leave the host."""

DOCUMENTATION = r"""
module: host_keys
short_description: Install a key and a certificate for each of a host's principals
description:
  - The action plugin of this name runs on the control node, which has the CA, and calls this module on the
    host. The host creates each key, and the key never leaves the host. The host sends its public key. The
    control node signs a certificate with the names in the inventory.
  - Each folder gets C(<principal>.pem) (key and certificate chain in one file), C(ca.pem) and
    C(client.properties). With O(keys[].java_password), it also gets C(rest.p12), C(trust.p12) and
    C(stores.properties). Without this option, such files of an earlier run are removed.
  - A service can change the files that it owns. A file that is not a key, or is larger than 1 MiB, is
    therefore replaced. PKCS12 stores are replaced unless they are byte for byte as root wrote them.
    C(.stores.json) contains their digests, and only root can read it.
  - The user owns the files. Root owns the folder, and the user's group can read it, so a service cannot
    replace a file by a link. An existing link is refused.
author: The Aqueduct project (!UNKNOWN)
options:
  keys:
    description: The principals.
    type: list
    elements: dict
    required: true
    suboptions:
      principal: {description: "The certificate's CN.", type: str, required: true}
      folder: {description: Folder of its files., type: path, required: true}
      owner: {description: User who owns these files., type: str, required: true}
      ca: {description: "Certificate of the CA.", type: str, required: true}
      properties: {description: Content of C(client.properties)., type: str, required: true}
      certificate: {description: "New certificate for the key.", type: str}
      new_key: {description: "Create a new key, even if one exists.", type: bool}
      provided: {description: "Key and certificate chain of another CA, as PEM.", type: str}
      java_password: {description: Create PKCS12 files with this password., type: str}
      java_trust: {description: "The file C(trust.p12), in base64.", type: str}
"""

EXAMPLES = r"""
# A task passes the arguments of the action plugin.
- name: Install the key and the certificate of a broker
  aqueduct.estate.host_keys:
    keys:
      - {principal: kafka, folder: /etc/aqueduct/kafka/tls, owner: kafka, names: [kafka-1.example.com]}
    source: own_ca
    directory: "{{ inventory_dir }}/pki"
    validity_days: 90
    renewal_days: 30
"""

RETURN = r"""
keys:
  description: "For each principal C(public_key), C(certificate) (empty if none exists) and C(changed)."
  type: list
  returned: success
"""

import hashlib
import json
import os
import pwd
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils import safe_files

REST = "rest.p12"  # for Java, as the next two
TRUST = "trust.p12"
STORES = "stores.properties"
RECORD = ".stores.json"  # digests of these stores, and of what is in them
MOST_BYTES = 1 << 20  # of a file that a service owns
MOST_KEY = 1024  # characters of a key on the curve P-256, which has 241; other kinds can take long to check
# No dash in a body, so that each begin is followed once.
KEY = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----[A-Za-z0-9+/=\s]+-----END (?:[A-Z]+ )*PRIVATE KEY-----"
)
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


class Keys:
    """A principal's files on this host."""

    def __init__(self, module: Any, entry: dict[str, Any]) -> None:
        self.module, self.entry, self.path = module, entry, Path(entry["folder"])
        self.changed: list[str] = []
        self.folder: safe_files.Folder | None = None  # in check mode there may be none
        try:
            owner = pwd.getpwnam(entry["owner"])
        except KeyError:
            module.fail_json(
                msg="[host-user-missing] "
                f"{self.path} must belong to {entry['owner']}, but this host has no such user. "
                "Run playbooks/hosts.yml without --tags."
            )
        self.user, self.group = owner.pw_uid, owner.pw_gid

    @property
    def pem(self) -> str:
        return f"{self.entry['principal']}.pem"

    @property
    def pending(self) -> str:
        """A key that has no certificate yet. The run after one that was cut short continues with it."""
        return f".{self.entry['principal']}.key"

    def have(self) -> dict[str, Any]:
        """Make the files what they are to be, as far as it can be done here."""
        try:
            with safe_files.folder(self.path, make=not self.module.check_mode) as self.folder:
                access = safe_files.Access(os.geteuid(), self.group, 0o750)
                if self.folder.give(access, dry=self.module.check_mode):
                    self.changed.append(str(self.path))
                return self._have()
        except FileNotFoundError:
            if not self.module.check_mode:
                raise
            self.changed.append(str(self.path))
            return self._have()

    def _have(self) -> dict[str, Any]:
        key, certificate = self._key_and_certificate()
        if certificate:
            self._file("ca.pem", self.entry["ca"].encode(), 0o644)
            self._file("client.properties", self.entry["properties"].encode(), 0o600)
            if self.entry["java_password"]:
                self._java_stores(key, certificate)
            else:
                self._remove(REST, TRUST, STORES)
                if self.folder and not self.module.check_mode:
                    self.folder.remove(RECORD)
        return {
            "public_key": _public(key) if key else "",
            "certificate": certificate,
            "changed": self.changed,
        }

    def _key_and_certificate(self) -> tuple[str, str]:
        if self.entry["provided"]:
            self._file(self.pem, self.entry["provided"].encode(), 0o600)
            return _parts(self.entry["provided"])
        key, certificate = _own_parts(self._read(self.pem))
        if self.entry["new_key"] and not self.entry["certificate"]:
            return self._pending_key(), ""
        if self.entry["new_key"] or not key:
            key = self._pending_key()
        if self.entry["certificate"]:
            certificate = self.entry["certificate"]
            self._file(self.pem, (key + certificate).encode(), 0o600)
            if self.folder and not self.module.check_mode:
                self.folder.remove(self.pending)
        elif certificate:
            self._access(self.pem, 0o600)
        return key, certificate

    def _pending_key(self) -> str:
        pending, _ = _own_parts(self._read(self.pending))
        if pending:
            return pending
        self.changed.append(str(self.path / self.pem))
        if self.module.check_mode:
            return ""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        made = ec.generate_private_key(ec.SECP256R1())
        key: bytes = made.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self._write(self.pending, key, 0o600)
        return key.decode()

    def _java_stores(self, key: str, certificate: str) -> None:
        """Write PKCS12 for Jetty, which takes no PEM; each again only where it holds something else.

        Stores of a service are not opened: it knows their password, and can make root spend hours on
        rounds of a key derivation. So root keeps a record of what it wrote.
        """
        import base64

        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12

        password = self.entry["java_password"].encode()
        own = x509.load_pem_x509_certificate(certificate.encode())
        private: Any = serialization.load_pem_private_key(key.encode(), password=None)
        self._file(STORES, b"password=" + password + b"\n", 0o600)
        encryption = serialization.BestAvailableEncryption(password)
        record = self._record()
        self._store(
            record,
            REST,
            _digest(password, own.public_bytes(serialization.Encoding.DER), _public(key).encode()),
            lambda: pkcs12.serialize_key_and_certificates(b"rest", private, own, None, encryption),
        )
        self._store(
            record,
            TRUST,
            _digest(password, self.entry["ca"].encode()),
            lambda: base64.b64decode(self.entry["java_trust"]),
        )
        content = json.dumps(record, sort_keys=True).encode()
        if self.folder and not self.module.check_mode and self._read(RECORD) != content:
            self.folder.write(RECORD, content, safe_files.Access(os.geteuid(), os.getegid(), 0o600))

    def _store(self, record: dict[str, Any], name: str, holds: str, make: Callable[[], bytes]) -> None:
        """Write a store, unless it is the one that was written with the same in it."""
        stored = self._read(name)
        if stored is not None and record.get(name) == {"file": _digest(stored), "holds": holds}:
            self._access(name, 0o600)
            return
        made = make()
        self._file(name, made, 0o600)
        record[name] = {"file": _digest(made), "holds": holds}

    def _record(self) -> dict[str, Any]:
        """Return what root wrote of its stores; nothing if the record is not root's own."""
        try:
            if self.folder is None:
                return {}
            with self.folder.open(RECORD) as descriptor:
                if os.fstat(descriptor).st_uid != os.geteuid():
                    return {}
            record = json.loads(self._read(RECORD) or b"{}")
        except (FileNotFoundError, ValueError, RecursionError):
            return {}
        return record if isinstance(record, dict) else {}

    def _read(self, name: str) -> bytes | None:
        """Read a file; None if there is none, or one that is too large to be it."""
        try:
            return self.folder.read(name, MOST_BYTES) if self.folder else None
        except safe_files.LargeFile:
            return None

    def _file(self, name: str, content: bytes, mode: int) -> None:
        if self._read(name) == content:
            self._access(name, mode)
            return
        self.changed.append(str(self.path / name))
        if not self.module.check_mode:
            self._write(name, content, mode)

    def _write(self, name: str, content: bytes, mode: int) -> None:
        if self.folder is None:
            raise AssertionError(f"{name} is written before its folder is open")
        self.folder.write(name, content, safe_files.Access(self.user, self.group, mode))

    def _remove(self, *names: str) -> None:
        for name in names:
            if self.folder and self.folder.exists(name):
                self.changed.append(str(self.path / name))
                if not self.module.check_mode:
                    self.folder.remove(name)

    def _access(self, name: str, mode: int) -> None:
        access = safe_files.Access(self.user, self.group, mode)
        if self.folder and self.folder.give_file(name, access, dry=self.module.check_mode):
            self.changed.append(str(self.path / name))


def _parts(pem: str) -> tuple[str, str]:
    """Return private key and certificates of a file, in whichever order it has them."""
    key, certificates = KEY.search(pem), CERTIFICATE.findall(pem)
    return (f"{key[0]}\n" if key else "", "".join(f"{certificate}\n" for certificate in certificates))


def _own_parts(content: bytes | None) -> tuple[str, str]:
    """Return key and certificates of a service's own file, without what cannot be one."""
    key, certificates = _parts((content or b"").decode(errors="replace"))
    return (key if _is_key(key) else "", certificates if _is_certificate(certificates) else "")


def _is_key(pem: str) -> bool:
    """Return whether the authority would sign a key: it signs those on the curve P-256 only."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    if not pem or len(pem) > MOST_KEY:
        return False
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)


def _is_certificate(pem: str) -> bool:
    """Return whether the first certificate can be read, and its key."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        x509.load_pem_x509_certificate(pem.encode()).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def _digest(*parts: bytes) -> str:
    digests = b"".join(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(digests).hexdigest()


def _public(key: str) -> str:
    from cryptography.hazmat.primitives import serialization

    public: bytes = (
        serialization.load_pem_private_key(key.encode(), password=None)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return public.decode()


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "keys": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "no_log": False,
                "options": {
                    "principal": {"type": "str", "required": True},
                    "folder": {"type": "path", "required": True},
                    "owner": {"type": "str", "required": True},
                    "ca": {"type": "str", "required": True},
                    "properties": {"type": "str", "required": True},
                    "certificate": {"type": "str"},
                    "new_key": {"type": "bool"},
                    "provided": {"type": "str", "no_log": True},
                    "java_password": {"type": "str", "no_log": True},
                    "java_trust": {"type": "str"},
                },
            },
        },
        supports_check_mode=True,
    )
    os.umask(0o077)
    try:
        key_states = [Keys(module, entry).have() for entry in module.params["keys"]]
    except safe_files.UnsafePath as error:
        module.fail_json(msg=f"[path-unsafe] {error}")
    changed = [path for state in key_states for path in state["changed"]]
    module.exit_json(changed=bool(changed), files=changed, keys=key_states)


if __name__ == "__main__":
    main()
