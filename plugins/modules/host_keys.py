#!/usr/bin/python
"""Ansible module: the host's part of the action host_keys; it makes keys, which never leave the host."""

DOCUMENTATION = r"""
module: host_keys
short_description: Have a key and a certificate for each of a host's principals
description:
  - The action of this name runs on the controller, which has the authority, and calls this on the host. A key
    is made on the host and never leaves it; the host sends its public key, and the controller signs what the
    inventory says.
  - Each folder gets C(<principal>.pem) (key and certificate chain in one), C(ca.pem) and
    C(client.properties); where O(keys[].java_password) is given, C(rest.p12), C(trust.p12) and
    C(stores.properties), too. Without it, such files of an earlier run are removed.
  - Files are the user's. The folder is root's, and the user's group may read it, so that no service puts a
    link in the place of a file. One that is there is refused.
author: The Aqueduct project (!UNKNOWN)
options:
  keys:
    description: The principals.
    type: list
    elements: dict
    required: true
    suboptions:
      principal: {description: "The certificate's CN.", type: str, required: true}
      folder: {description: Where its files are., type: path, required: true}
      owner: {description: The user who may read them., type: str, required: true}
      ca: {description: "The authority's certificate.", type: str, required: true}
      properties: {description: The text of C(client.properties)., type: str, required: true}
      certificate: {description: "A new certificate for the key.", type: str}
      new_key: {description: "Take a key that is made anew, not the one that is there.", type: bool}
      provided: {description: Key and certificate chain that somebody else made., type: str}
      java_password: {description: Make PKCS12 files with this password., type: str}
      java_trust: {description: "The file C(trust.p12), in base64.", type: str}
"""

EXAMPLES = r"""
# The arguments of a task are those of the action of this name.
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
  description: "For each principal C(public_key), C(certificate) (empty where there is none) and C(changed)."
  type: list
  returned: success
"""

import os
import pwd
import re
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils import safe_files

REST = "rest.p12"  # for Java, as the next two
TRUST = "trust.p12"
STORES = "stores.properties"
KEY = re.compile("-----BEGIN ([A-Z]+ )*PRIVATE KEY-----.*?-----END ([A-Z]+ )*PRIVATE KEY-----", re.DOTALL)
ONE_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
CERTIFICATES = re.compile("-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----", re.DOTALL)


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
                f"{entry['owner']}, who is to own {self.path}, is no user of this host."
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
        return {
            "public_key": _public(key) if key else "",
            "certificate": certificate,
            "changed": self.changed,
        }

    def _key_and_certificate(self) -> tuple[str, str]:
        if self.entry["provided"]:
            self._file(self.pem, self.entry["provided"].encode(), 0o600)
            return _parts(self.entry["provided"])
        key, certificate = _parts((self._read(self.pem) or b"").decode())
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
        if pending := self._read(self.pending):
            return pending.decode()
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
        """Write PKCS12 for Jetty, which takes no PEM; each again only where it holds something else."""
        import base64

        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12

        password = self.entry["java_password"].encode()
        own = x509.load_pem_x509_certificate(certificate.encode())
        private: Any = serialization.load_pem_private_key(key.encode(), password=None)
        held = _load_p12(self._read(REST), password)
        if held and held.key and held.cert and held.cert.certificate == own:
            same = held.key.public_key().public_numbers() == private.public_key().public_numbers()
        else:
            same = False
        self._file(STORES, b"password=" + password + b"\n", 0o600)
        if same:
            self._access(REST, 0o600)
        else:
            encryption = serialization.BestAvailableEncryption(password)
            made = pkcs12.serialize_key_and_certificates(b"rest", private, own, None, encryption)
            self._file(REST, made, 0o600)
        # One by one: Debian 12's cryptography can't load several.
        pems = ONE_CERTIFICATE.findall(self.entry["ca"])
        authorities = {x509.load_pem_x509_certificate(pem.encode()) for pem in pems}
        held = _load_p12(self._read(TRUST), password)
        if held and {trusted.certificate for trusted in held.additional_certs} == authorities:
            self._access(TRUST, 0o600)
        else:
            self._file(TRUST, base64.b64decode(self.entry["java_trust"]), 0o600)

    def _read(self, name: str) -> bytes | None:
        return self.folder.read(name) if self.folder else None

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
    key, certificates = KEY.search(pem), CERTIFICATES.search(pem)
    return (f"{key[0]}\n" if key else "", f"{certificates[0]}\n" if certificates else "")


def _public(key: str) -> str:
    from cryptography.hazmat.primitives import serialization

    public: bytes = (
        serialization.load_pem_private_key(key.encode(), password=None)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return public.decode()


def _load_p12(content: bytes | None, password: bytes) -> Any:
    """Read a PKCS #12 file; None if it is missing, or has another password."""
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        return pkcs12.load_pkcs12(content or b"", password)
    except ValueError:
        return None


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
