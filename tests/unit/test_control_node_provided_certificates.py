"""Provided certificates are judged as clients judge them: up to the one that a trusted authority signed."""

from datetime import timedelta
from pathlib import Path

import pytest

from aqueduct.control_node.certificates import provided_fault, utc_now
from servers.pki import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


def fault(file: Path, authority: Authority, days: int = 0) -> str:
    return provided_fault(file, authority.certificate, "kafka", utc_now() + timedelta(days=days))


def test_certificates_after_trusted_one_are_ignored(authority: Authority, tmp_path: Path) -> None:
    file = authority.issue("kafka")
    ended = Authority(tmp_path / "other").issue("old root", days=-1).read_text()
    file.write_text(file.read_text() + ended.partition("-----END PRIVATE KEY-----\n")[2])
    assert fault(file, authority) == ""


def test_a_trusted_authority_must_be_in_date(authority: Authority) -> None:
    file = authority.issue("kafka", days=9)
    assert fault(file, authority) == ""
    assert fault(file, authority, days=2).startswith("the certificate in ca.pem of CN=authority expired at ")


def test_unreadable_certificate_files_are_faults(authority: Authority, tmp_path: Path) -> None:
    file = authority.issue("kafka")
    assert fault(tmp_path, authority) == "it cannot be read: Is a directory"
    lost = provided_fault(file, tmp_path / "ca.pem", "kafka", utc_now())
    assert lost == "ca.pem cannot be read: No such file or directory"
    file.write_bytes(b"\x30\x82\xff\xfe" * 20)  # as DER has them
    assert fault(file, authority) == "it has no readable certificate"
