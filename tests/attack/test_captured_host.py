"""A host with another's root on it: whatever it answers, it gets no certificate but its own."""

import getpass
import json
import ssl
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from kit import ansible_process

from aqueduct.control_node import certificates
from aqueduct.control_node.certificates import PEM, Wanted

ROOT = Path(__file__).parents[2]
HOST, PRINCIPAL = "connect-dev1", "connect-dev"
# What runs on the host in the place of the module host_keys: whoever has root there may change it.
MODULE = """#!/usr/bin/python
import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule({"keys": {"type": "list", "elements": "dict", "no_log": False}})
folder = Path(module.params["keys"][0]["folder"]).parent
with (folder / "brought").open("a") as file:
    file.write(json.dumps(module.params["keys"]) + "\\n")
module.exit_json(**json.loads((folder / "answer").read_text()))
"""

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def public(key: Key) -> str:
    form = certificates.serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(PEM, form).decode()


@dataclass
class Captured:
    """A host and its controller, which has an authority."""

    folder: Path
    collections: Path  # with MODULE
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        (self.folder / "pki/ca").mkdir(parents=True)
        now = certificates.utc_now()
        self.authority, _ = certificates.have_authority(self.folder / "pki/ca", now)
        self.of_admin = certificates.issue(
            public(ec.generate_private_key(ec.SECP256R1())),
            Wanted(
                principal="admin", names=(), usages=certificates.CLIENT, validity_days=365, renewal_days=30
            ),
            self.authority,
            now,
        )

    def play(self, *, serves: bool = True, **answer: Any) -> "subprocess.CompletedProcess[str]":
        """Bring the host its keys, as the role certificates does."""
        (self.folder / "answer").write_text(json.dumps({"files": []} | answer))
        entry = {"principal": PRINCIPAL, "owner": getpass.getuser(), "names": [HOST], "serves": serves}
        task = {
            "aqueduct.estate.host_keys": {
                "keys": [entry | {"folder": str(self.folder / "tls")}],
                "source": "own_ca",
                "directory": str(self.folder / "pki"),
                "validity_days": 365,
                "renewal_days": 30,
            }
        }
        book = self.folder / "play.yml"
        book.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
        return ansible_process.play_again(
            book,
            *(f"--inventory={HOST},", "--connection=local"),
            f"--extra-vars=ansible_python_interpreter={sys.executable}",
            ANSIBLE_COLLECTIONS_PATH=str(self.collections),
        )

    def brought(self) -> list[x509.Certificate]:
        """Return every certificate that the host was given."""
        calls = [json.loads(line) for line in (self.folder / "brought").read_text().splitlines()]
        given = [each["certificate"] for call in calls for each in call if each.get("certificate")]
        return [x509.load_pem_x509_certificate(each.encode()) for each in given]


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captured")
    return ansible_process.collections_with(folder, "plugins/modules/host_keys.py", MODULE)


@pytest.fixture
def captured(tmp_path: Path, collections: Path) -> Captured:
    return Captured(tmp_path, collections)


def request(captured: Captured) -> dict[str, Any]:
    """Ask for the administrator's certificate, as requests do, in the place of a public key."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "admin")])
    asked = x509.CertificateSigningRequestBuilder().subject_name(name).sign(captured.key, hashes.SHA256())
    return {"keys": [{"public_key": asked.public_bytes(PEM).decode(), "certificate": ""}]}


def another_kind(_: Captured) -> dict[str, Any]:
    return {"keys": [{"public_key": public(rsa.generate_private_key(65537, 2048)), "certificate": ""}]}


def one_more(captured: Captured) -> dict[str, Any]:
    own = {"public_key": public(captured.key), "certificate": ""}
    return {"keys": [own, own | {"principal": "admin"}]}


def no_text(_: Captured) -> dict[str, Any]:
    return {"keys": [{"public_key": {"a": 1}, "certificate": ""}]}


def nothing(_: Captured) -> dict[str, Any]:
    return {}


NO_KEY = f"{HOST}, {PRINCIPAL}: [public-key-invalid] "
NO_ANSWER = f"{HOST} did not send one public key for each of its 1 principals. Nothing was signed"
ATTACKS: dict[str, tuple[Callable[[Captured], dict[str, Any]], str]] = {
    "a request for another principal": (request, NO_KEY),
    "a key of another kind": (another_kind, NO_KEY),
    "one more principal": (one_more, NO_ANSWER),
    "no text": (no_text, NO_ANSWER),
    "nothing": (nothing, NO_ANSWER),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_invalid_public_key_is_reported_and_not_signed(captured: Captured, attack: str) -> None:
    answer, why = ATTACKS[attack]
    done = captured.play(**answer(captured))
    assert captured.brought() == []
    assert not (captured.folder / "pki/ca/issued").exists()
    assert done.returncode == 2, done.stdout
    said = " ".join(done.stdout.split())
    assert why in said, said
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("has", ["none", "the administrator's", "no certificate"])
def test_certificate_names_come_from_inventory_not_from_host(captured: Captured, has: str) -> None:
    certificate = {
        "none": "",
        "the administrator's": captured.of_admin,
        "no certificate": "-----BEGIN CERTIFICATE-----\nCN=admin\n-----END CERTIFICATE-----\n",
    }[has]
    own = {"public_key": public(captured.key), "certificate": certificate}
    done = captured.play(keys=[own], subject="CN=admin", names=["lake-1"])
    assert done.returncode == 0, done.stdout
    [made] = captured.brought()
    assert made.subject.rfc4514_string() == f"CN={PRINCIPAL}"
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [HOST]
    assert made.public_key() == captured.key.public_key()
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    made.verify_directly_issued_by(captured.authority.certificate)


def test_key_of_former_authority_is_never_signed_again(captured: Captured, tmp_path: Path) -> None:
    """Where the authority was replaced, that key may be in other hands: the host is asked for a new one."""
    (tmp_path / "former").mkdir()
    now = certificates.utc_now()
    former, _ = certificates.have_authority(tmp_path / "former", now)
    wanted = Wanted(
        principal=PRINCIPAL, names=(HOST,), usages=certificates.SERVICE, validity_days=365, renewal_days=30
    )
    own = {
        "public_key": public(captured.key),
        "certificate": certificates.issue(public(captured.key), wanted, former, now),
    }
    done = captured.play(keys=[own])
    assert done.returncode == 0, done.stdout
    calls = [json.loads(line) for line in (captured.folder / "brought").read_text().splitlines()]
    asked = [(each.get("new_key"), bool(each.get("certificate"))) for [each] in calls]
    assert asked == [(None, False), (True, False), (True, True)]


@pytest.mark.parametrize("serves", [True, False])
def test_key_is_replaced_when_server_becomes_client_only(captured: Captured, serves: bool) -> None:
    """Everyone who connected to it has its certificate, and a Spark cluster's workers have the key."""
    wanted = Wanted(
        principal=PRINCIPAL, names=(HOST,), usages=certificates.SERVICE, validity_days=365, renewal_days=30
    )
    certificate = certificates.issue(public(captured.key), wanted, captured.authority, certificates.utc_now())
    done = captured.play(
        serves=serves, keys=[{"public_key": public(captured.key), "certificate": certificate}]
    )
    assert done.returncode == 0, done.stdout
    calls = [json.loads(line) for line in (captured.folder / "brought").read_text().splitlines()]
    asked = [(call.get("new_key"), bool(call.get("certificate"))) for [call] in calls]
    assert asked == ([(None, False)] if serves else [(None, False), (True, False), (True, True)])


@pytest.mark.parametrize("serves", [True, False])
def test_the_certificate_of_a_client_serves_nobody(captured: Captured, serves: bool) -> None:
    """Whoever captures it listens in the place of a service of the same host, which others would believe."""
    done = captured.play(serves=serves, keys=[{"public_key": public(captured.key), "certificate": ""}])
    assert done.returncode == 0, done.stdout
    [certificate] = captured.brought()
    form = certificates.serialization.PrivateFormat.PKCS8
    key = captured.key.private_bytes(PEM, form, certificates.serialization.NoEncryption())
    (captured.folder / "own.pem").write_bytes(key + certificate.public_bytes(PEM))
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(captured.folder / "own.pem")
    client.load_verify_locations(captured.folder / "pki/ca/ca.pem")
    if serves:
        handshake(server, client)
    else:
        with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
            handshake(server, client)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Connect a client to the host, in memory."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(back, there, server_hostname=HOST)
    answers = server.wrap_bio(there, back, server_side=True)
    open_ends = [asks, answers]
    while open_ends:
        for end in list(open_ends):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
                open_ends.remove(end)
