"""The host's part of keys and certificates: the module runs as Ansible runs it, on this machine's folders."""

import base64
import getpass
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import plugin_modules
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12

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


def test_a_key_is_made_once_and_only_its_public_half_is_told(tmp_path: Path, authority: Authority) -> None:
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


def test_a_renewed_certificate_keeps_the_key_and_changes_what_has_it(
    tmp_path: Path, authority: Authority
) -> None:
    folder = tmp_path / "tls"
    made = run(folder, authority, **ONE)["key"]["public_key"]
    run(folder, authority, certificate=sign(made, authority), **ONE)
    assert not run(folder, authority, **ONE)["changed"]
    renewed = run(folder, authority, certificate=sign(made, authority), **ONE)
    assert {Path(path).name for path in renewed["files"]} == {"mirror-lake.pem", "rest.p12"}
    assert renewed["key"]["public_key"] == made


def test_a_new_key_takes_the_old_one_s_place_when_it_has_its_certificate(
    tmp_path: Path, authority: Authority
) -> None:
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


def test_stores_hold_what_the_files_hold_and_follow_their_password(
    tmp_path: Path, authority: Authority
) -> None:
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
