"""Provided certificates that are valid for more than their service: each would let its holder impersonate."""

import getpass
import json
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from kit import ansible_process

from servers.pki import Authority

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
ANY, SIGNING = ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE, ExtendedKeyUsageOID.CODE_SIGNING
HOST, OTHER = "kafka-1.pro1.example", "kafka-1.lake.example"
USAGES, NAMES = "[provided-certificate-usages]", "[provided-certificate-names]"


@dataclass(frozen=True, kw_only=True)
class Estate:
    """An inventory of two sites with provided certificates, all of them good."""

    folder: Path
    authority: Authority

    @property
    def inventory(self) -> Path:
        return self.folder / "hosts.yml"

    @property
    def brought(self) -> Path:
        return self.folder / "tls"

    def check(self) -> "subprocess.CompletedProcess[str]":
        return ansible_process.play("playbooks/check.yml", "-i", str(self.inventory))

    def bring(self, principal: str, *, serves: bool) -> "subprocess.CompletedProcess[str]":
        """Install a key on its host, as the role certificates does in each play."""
        key = {"principal": principal, "owner": getpass.getuser(), "names": [HOST], "serves": serves}
        task = {
            "aqueduct.estate.host_keys": {
                "keys": [key | {"folder": str(self.brought)}],
                "source": "provided",
                "directory": str(self.folder / "pki"),
                "provided_directory": str(self.folder / "provided"),
                "validity_days": 365,
                "renewal_days": 30,
            }
        }
        play = {"hosts": HOST, "connection": "local", "gather_facts": False, "tasks": [task]}
        book = self.folder / "play.yml"
        book.write_text(json.dumps([play]))
        python = f"--extra-vars=ansible_python_interpreter={sys.executable}"
        return ansible_process.play(book, f"--inventory={self.inventory}", python)


@pytest.fixture
def estate(tmp_path: Path) -> Estate:
    authority = Authority(tmp_path / "provided")
    shutil.copy(authority.certificate, tmp_path / "provided/ca.pem")
    authority.issue("kafka-pro1", names=[HOST, "pro1.example"], usages=[CLIENT, SERVER])
    authority.issue("kafka-lake", names=[OTHER])
    authority.issue("reconcile-pro1", names=[HOST], usages=[CLIENT])
    (tmp_path / "hosts.yml").write_text(
        f"""all:
  vars: {{certificates_source: provided, certificates_provided_directory: {tmp_path}/provided}}
  children:
    site_pro1: {{hosts: {{{HOST}: {{kafka_node_id: 1}}}}}}
    site_lake: {{hosts: {{{OTHER}: {{kafka_node_id: 1}}}}}}
    kafka: {{hosts: {{{HOST}: , {OTHER}: }}}}
    reconcile: {{hosts: {{{HOST}: }}}}
"""
    )
    return Estate(folder=tmp_path, authority=authority)


def is_accepted(pem: Path, authority: Authority, host: str) -> bool:
    """Tell whether a client of `host` accepts the holder of this key as its server, in memory."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(pem)
    client.load_verify_locations(authority.certificate)
    requests, answers = ssl.MemoryBIO(), ssl.MemoryBIO()
    open_ends = [
        client.wrap_bio(answers, requests, server_hostname=host),
        server.wrap_bio(requests, answers, server_side=True),
    ]
    try:
        while open_ends:
            for end in list(open_ends):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
                    open_ends.remove(end)
    except ssl.SSLCertVerificationError:
        return False
    return True


def text_of(play: "subprocess.CompletedProcess[str]") -> str:
    return " ".join(play.stdout.split())


def test_certificates_that_suit_their_services_are_accepted(estate: Estate) -> None:
    checked = estate.check()
    assert checked.returncode == 0, checked.stdout
    for principal, serves in (("kafka-pro1", True), ("reconcile-pro1", False)):
        played = estate.bring(principal, serves=serves)
        assert played.returncode == 0, played.stdout
    assert not is_accepted(estate.brought / "reconcile-pro1.pem", estate.authority, HOST)


def test_brokers_of_declared_principal_may_share_certificate(estate: Estate) -> None:
    """Both sites then have one principal, so each broker's names are its own."""
    inventory = estate.inventory.read_text()
    estate.inventory.write_text(
        inventory.replace("kafka_node_id: 1", "kafka_node_id: 1, kafka_principal: both")
    )
    estate.authority.issue("both", names=[HOST, OTHER], usages=[CLIENT, SERVER])
    checked = estate.check()
    assert checked.returncode == 0, checked.stdout
    played = estate.bring("both", serves=True)
    assert played.returncode == 0, played.stdout


Make = Callable[[Authority], Path]
# Two keys at once, because the check reports each of them: a client's, and a broker's.
ATTACKS: dict[str, list[tuple[Make, str, str]]] = {
    "valid for all usages, and with the name of another site's broker": [
        (lambda authority: authority.issue("reconcile-pro1", names=[HOST]), HOST, USAGES),
        (
            lambda authority: authority.issue("kafka-pro1", names=[HOST, OTHER], usages=[CLIENT, SERVER]),
            OTHER,
            NAMES,
        ),
    ],
    "valid for servers, and for a whole domain": [
        (
            lambda authority: authority.issue("reconcile-pro1", names=[HOST], usages=[CLIENT, SERVER]),
            HOST,
            USAGES,
        ),
        (lambda authority: authority.issue("kafka-pro1", names=[HOST, "*.lake.example"]), OTHER, NAMES),
    ],
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_key_that_could_impersonate_service_is_refused(estate: Estate, attack: str) -> None:
    named = {}
    for make, impersonated, identifier in ATTACKS[attack]:
        file = make(estate.authority)
        assert is_accepted(file, estate.authority, impersonated)
        named[file] = f"{identifier} {file}"
    checked = estate.check()
    assert checked.returncode == 2
    for file, sentence in named.items():
        assert sentence in text_of(checked), checked.stdout
        played = estate.bring(file.stem, serves=file.stem.startswith("kafka"))
        assert played.returncode == 2
        assert sentence in text_of(played), played.stdout
        assert not (estate.brought / file.name).exists()


@pytest.mark.parametrize(("usages", "is_refused"), [([CLIENT, SERVER], True), ([], True), ([CLIENT], False)])
def test_key_for_spark_workers_must_be_client_only(
    estate: Estate, usages: list[x509.ObjectIdentifier], is_refused: bool
) -> None:
    """The site has a cluster, whose workers get the key of each application."""
    inventory = estate.inventory.read_text()
    cluster = f"spark_master: {{hosts: {{{HOST}: }}}}\n    spark_worker: {{hosts: {{{HOST}: }}}}"
    estate.inventory.write_text(f"{inventory}    {cluster}\n")
    estate.authority.issue("spark-pro1", names=[HOST], usages=[CLIENT, SERVER])
    file = estate.authority.issue("reconcile-pro1", names=[HOST], usages=usages)
    checked = estate.check()
    assert checked.returncode == (2 if is_refused else 0), checked.stdout
    assert (f"{USAGES} {file}" in text_of(checked)) == is_refused, checked.stdout


# A client's and a broker's.
UNFIT: dict[str, list[tuple[Make, str]]] = {
    "for any usage, and for servers only": [
        (lambda authority: authority.issue("reconcile-pro1", usages=[CLIENT, ANY]), USAGES),
        (lambda authority: authority.issue("kafka-pro1", names=[HOST], usages=[SERVER]), USAGES),
    ],
    "without a client's usage, and for clients only": [
        (lambda authority: authority.issue("reconcile-pro1", usages=[SIGNING]), USAGES),
        (lambda authority: authority.issue("kafka-pro1", names=[HOST], usages=[CLIENT]), USAGES),
    ],
    "with another host, and without its host": [
        (
            lambda authority: authority.issue("reconcile-pro1", names=[OTHER.upper()], usages=[CLIENT]),
            NAMES,
        ),
        (lambda authority: authority.issue("kafka-pro1"), NAMES),
    ],
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_key_unsuitable_for_service_is_refused(estate: Estate, unfit: str) -> None:
    sentences = [f"{identifier} {make(estate.authority)}" for make, identifier in UNFIT[unfit]]
    checked = estate.check()
    assert checked.returncode == 2
    for sentence in sentences:
        assert sentence in text_of(checked), checked.stdout
