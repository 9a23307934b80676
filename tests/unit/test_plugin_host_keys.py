"""The host's part of keys and certificates: the module runs as Ansible runs it, on this machine's folders."""

import base64
import getpass
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from kit import plugin_modules

from aqueduct.control_node import certificates
from aqueduct.control_node.certificates import SERVICE, Authority, Wanted

NOW = datetime.now(UTC)
ONE, TWO = {"java_password": "one"}, {"java_password": "two"}
WANTED = Wanted(
    principal="mirror-lake", names=("lake-1",), usages=SERVICE, validity_days=365, renewal_days=30
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "ca").mkdir()
    return certificates.have_authority(tmp_path / "ca", NOW)[0]


def run(folder: Path, authority: Authority, *, check: bool = False, **given: str | bool) -> dict[str, Any]:
    """Call the module for one principal; what it answers, with `key` for that principal."""
    entry = {"principal": "mirror-lake", "folder": str(folder), "owner": getpass.getuser()}
    entry |= {"ca": authority.trusted, "properties": "a=b\n", **given}
    if "java_password" in given:
        trust = certificates.java_truststore(authority.trusted, str(given["java_password"]))
        entry["java_trust"] = base64.b64encode(trust).decode()
    answer = plugin_modules.run("host_keys", {"keys": [entry], "_ansible_check_mode": check})
    assert not answer.get("failed"), answer
    return answer | {"key": answer["keys"][0]}


def sign(public_key: str, authority: Authority) -> str:
    return certificates.issue(public_key, WANTED, authority, NOW)


def test_private_key_is_made_once_and_never_returned(tmp_path: Path, authority: Authority) -> None:
    folder = tmp_path / "tls"
    first = run(folder, authority)
    assert first["changed"]
    assert first["key"]["certificate"] == ""
    assert "PRIVATE" not in json.dumps(first["keys"])
    again = run(folder, authority)  # a run that was cut short before its certificate came
    assert again["key"]["public_key"] == first["key"]["public_key"]
    assert not again["changed"]
    run(folder, authority, certificate=sign(first["key"]["public_key"], authority))
    last = run(folder, authority)
    assert not last["changed"]
    assert last["key"]["public_key"] == first["key"]["public_key"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "ca.pem",
        "client.properties",
        "mirror-lake.pem",
    ]
    assert (folder / "mirror-lake.pem").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o750
    key = load_pem_private_key((folder / "mirror-lake.pem").read_bytes(), None)
    assert certificates.fault(last["key"]["certificate"], public(key), WANTED, authority, NOW) == ""


def public(key: Any) -> str:
    pem: bytes = key.public_key().public_bytes(
        certificates.PEM, certificates.serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem.decode()


def test_renewed_certificate_keeps_key_and_updates_its_files(tmp_path: Path, authority: Authority) -> None:
    folder = tmp_path / "tls"
    made = run(folder, authority, **ONE)["key"]["public_key"]
    run(folder, authority, certificate=sign(made, authority), **ONE)
    assert not run(folder, authority, **ONE)["changed"]
    renewed = run(folder, authority, certificate=sign(made, authority), **ONE)
    assert {Path(path).name for path in renewed["files"]} == {"mirror-lake.pem", "rest.p12"}
    assert renewed["key"]["public_key"] == made


def test_new_key_is_used_only_with_its_certificate(tmp_path: Path, authority: Authority) -> None:
    folder = tmp_path / "tls"
    made = run(folder, authority)["key"]["public_key"]
    run(folder, authority, certificate=sign(made, authority))
    before = (folder / "mirror-lake.pem").read_bytes()
    new = run(folder, authority, new_key=True)["key"]
    assert (new["public_key"] != made, new["certificate"]) == (True, "")
    assert (folder / "mirror-lake.pem").read_bytes() == before, "the service goes on with what it has"
    again = run(folder, authority, new_key=True)["key"]  # after a run that was cut short
    assert again["public_key"] == new["public_key"]
    run(folder, authority, new_key=True, certificate=sign(new["public_key"], authority))
    key = load_pem_private_key((folder / "mirror-lake.pem").read_bytes(), None)
    assert public(key) == new["public_key"]
    assert not run(folder, authority)["changed"]


def test_keystores_match_files_and_follow_password_change(tmp_path: Path, authority: Authority) -> None:
    folder = tmp_path / "tls"
    made = run(folder, authority, **ONE)["key"]["public_key"]
    run(folder, authority, certificate=sign(made, authority), **ONE)
    other = run(folder, authority, **TWO)
    names = {Path(path).name for path in other["files"]}
    assert names == {"rest.p12", "trust.p12", "stores.properties"}
    held = pkcs12.load_pkcs12((folder / "rest.p12").read_bytes(), b"two")
    assert held.key is not None
    assert public(held.key) == made
    [trusted] = pkcs12.load_pkcs12((folder / "trust.p12").read_bytes(), b"two").additional_certs
    assert trusted.certificate == authority.certificate


def test_stores_go_with_their_password(tmp_path: Path, authority: Authority) -> None:
    """They hold a former key, and its certificate as a server."""
    folder = tmp_path / "tls"
    made = run(folder, authority, **ONE)["key"]["public_key"]
    run(folder, authority, certificate=sign(made, authority), **ONE)
    stores = {str(folder / name) for name in ("rest.p12", "trust.p12", "stores.properties")}
    assert {*run(folder, authority, check=True)["files"]} == stores
    assert all(Path(store).exists() for store in stores)
    assert {*run(folder, authority)["files"]} == stores
    assert not any(Path(store).exists() for store in stores)
    assert not run(folder, authority)["changed"]


def test_what_was_provided_is_taken_in_either_order(tmp_path: Path, authority: Authority) -> None:
    made = run(tmp_path / "a", authority)["key"]["public_key"]
    certificate = sign(made, authority)
    run(tmp_path / "a", authority, certificate=certificate)
    key = (tmp_path / "a/mirror-lake.pem").read_text().removesuffix(certificate)
    given = {"provided": certificate + key, **ONE}
    assert run(tmp_path / "b", authority, **given)["key"]["public_key"] == made
    assert not run(tmp_path / "b", authority, **given)["changed"]
    assert (tmp_path / "b/mirror-lake.pem").read_text() == certificate + key


def test_a_file_that_others_may_read_is_repaired(tmp_path: Path, authority: Authority) -> None:
    folder = tmp_path / "tls"
    made = run(folder, authority)["key"]["public_key"]
    run(folder, authority, certificate=sign(made, authority))
    (folder / "mirror-lake.pem").chmod(0o644)
    assert run(folder, authority, check=True)["changed"]
    assert (folder / "mirror-lake.pem").stat().st_mode & 0o777 == 0o644
    assert run(folder, authority)["files"] == [str(folder / "mirror-lake.pem")]
    assert (folder / "mirror-lake.pem").stat().st_mode & 0o777 == 0o600


def test_check_mode_makes_nothing(tmp_path: Path, authority: Authority) -> None:
    assert run(tmp_path / "tls", authority, check=True)["changed"]
    assert not (tmp_path / "tls").exists()


def text(key: Any, password: bytes = b"") -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    pem: bytes = key.private_bytes(certificates.PEM, PrivateFormat.PKCS8, encryption)
    return pem


BEGIN, END = b"-----BEGIN PRIVATE " + b"KEY-----\n", b"-----END PRIVATE KEY-----\n"
CERTIFICATE = b"-----BEGIN CERTIFICATE-----\n"
UNUSABLE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "no text": lambda _: b"\xff" * 99,
    "begins of keys": lambda _: BEGIN * ((1 << 20) // len(BEGIN) - 1),
    "begins of certificates": lambda pem: CERTIFICATE * 30_000 + BEGIN,
    "kinds of keys": lambda _: b"-----BEGIN " + b"A " * 500_000,
    "a body without an end": lambda _: BEGIN + b"A" * 1_000_000,
    "no key": lambda _: BEGIN + b"AAAA\n" + END,
    "a large key": lambda _: BEGIN + b"A" * 1_000_000 + END,
    "a large file": lambda pem: pem + bytes(1 << 20),
    "encrypted": lambda _: text(x25519.X25519PrivateKey.generate(), b"password"),
    "no key for signatures": lambda _: text(x25519.X25519PrivateKey.generate()),
    "RSA": lambda _: text(rsa.generate_private_key(65537, 2048)),
    "another curve": lambda _: text(ec.generate_private_key(ec.SECP384R1())),
}


USABLE = "usable"


class Repairs(NamedTuple):
    """The keys of a host by case, of which all but one have an unusable file."""

    authority: Authority
    found: dict[str, Any]  # in the first run after that
    last: dict[str, Any]  # after their new certificates came


@pytest.fixture(scope="module")
def repairs(tmp_path_factory: pytest.TempPathFactory) -> Repairs:
    """Have the files of all cases replaced by the same runs: a host has several services."""
    folder = tmp_path_factory.mktemp("unusable")
    (folder / "ca").mkdir()
    authority = certificates.have_authority(folder / "ca", NOW)[0]
    folders = {case: folder / str(number) for number, case in enumerate([*UNUSABLE, USABLE])}

    def run_all(issued: Mapping[str, str]) -> dict[str, Any]:
        """Call the module for all keys. `issued`: new certificates."""
        entry = {"principal": "mirror-lake", "owner": getpass.getuser(), "ca": authority.trusted}
        entry["properties"] = "a=b\n"
        keys = [
            {**entry, "folder": str(path)} | ({"certificate": issued[case]} if case in issued else {})
            for case, path in folders.items()
        ]
        answer = plugin_modules.run("host_keys", {"keys": keys})
        assert not answer.get("failed"), answer
        return dict(zip(folders, answer["keys"], strict=True))

    def signed(keys: Mapping[str, Any]) -> dict[str, str]:
        return {case: sign(key["public_key"], authority) for case, key in keys.items()}

    run_all(signed(run_all({})))
    for case, unusable in UNUSABLE.items():
        pem = folders[case] / "mirror-lake.pem"
        pem.write_bytes(unusable(pem.read_bytes()))
    found = run_all({})
    run_all(signed({case: found[case] for case in UNUSABLE}))
    return Repairs(authority, found, run_all({}))


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_file_of_a_service_is_replaced(case: str, repairs: Repairs) -> None:
    bad, last = repairs.found[case], repairs.last[case]
    assert bad["certificate"] == ""
    fault = certificates.fault(last["certificate"], bad["public_key"], WANTED, repairs.authority, NOW)
    assert fault == ""
    assert last["changed"] == []


def test_unusable_files_leave_other_key_unchanged(repairs: Repairs) -> None:
    for key in (repairs.found[USABLE], repairs.last[USABLE]):
        fault = certificates.fault(key["certificate"], key["public_key"], WANTED, repairs.authority, NOW)
        assert fault == ""
        assert key["changed"] == []


def test_unusable_pending_key_is_replaced(tmp_path: Path, authority: Authority) -> None:
    made = run(tmp_path / "tls", authority)["key"]["public_key"]
    (tmp_path / "tls/.mirror-lake.key").write_bytes(BEGIN * 30_000)
    other = run(tmp_path / "tls", authority)["key"]["public_key"]
    assert other not in ("", made)
    assert run(tmp_path / "tls", authority)["key"]["public_key"] == other


@pytest.mark.parametrize("name", ["rest.p12", "trust.p12"])
def test_keystore_not_written_by_root_is_replaced_unopened(
    name: str, tmp_path: Path, authority: Authority
) -> None:
    """The service knows the password, and could write a store whose key derivation takes hours."""
    folder = tmp_path / "tls"
    made = run(folder, authority, **ONE)["key"]["public_key"]
    run(folder, authority, certificate=sign(made, authority), **ONE)
    assert not run(folder, authority, **ONE)["changed"]
    store = pkcs12.load_pkcs12((folder / name).read_bytes(), b"one")
    if store.key and store.cert:
        key: Any = store.key
        own, encryption = store.cert.certificate, BestAvailableEncryption(b"one")
        same = pkcs12.serialize_key_and_certificates(b"rest", key, own, None, encryption)
    else:
        same = certificates.java_truststore(authority.trusted, "one")
    (folder / name).write_bytes(same)
    assert run(folder, authority, **ONE)["files"] == [str(folder / name)]
    assert (folder / name).read_bytes() != same
    assert not run(folder, authority, **ONE)["changed"]


def test_keystore_record_is_private_and_removed_with_keystores(tmp_path: Path, authority: Authority) -> None:
    folder = tmp_path / "tls"
    made = run(folder, authority, **ONE)["key"]["public_key"]
    run(folder, authority, certificate=sign(made, authority), **ONE)
    record = folder / ".stores.json"
    assert record.stat().st_mode & 0o777 == 0o600
    record.write_text("[" * 100_000)
    names = {"rest.p12", "trust.p12"}
    assert {Path(path).name for path in run(folder, authority, **ONE)["files"]} == names
    run(folder, authority)
    assert not record.exists()
