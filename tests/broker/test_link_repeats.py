"""Repeats by a sending end, and where it and its companions log and keep a key's password."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from kit.clients import wait_for
from kit.links import Link
from kit.relay import Faults

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from servers.broker import Broker


def test_repeated_sending_without_bundle_delivers_lost_records(link: Link) -> None:
    """Check repeats without a bundle, and that the sending end logs into a file, and nowhere else."""
    log = link.folder / "upstream.txt"
    down = link.downstream()
    # All is lost once, so the test must notice that all was sent before it is sent again.
    up = link.upstream(repeatAfter="60", logFileName=str(log))
    wait_for("sending", lambda: log.exists() and "sending to" in log.read_text())
    link.relay.faults = Faults(lose=1)
    link.write(500)
    link.wait_until_sent()
    assert link.frames() == [], "nothing was lost: the test proves nothing"
    link.relay.faults = Faults()
    link.wait_until_told()
    wait_for("sending everything again", link.filled)
    link.assert_equal(500)
    link.stop(up, down)
    assert link.said("upstream") == ""


def test_a_key_s_password_comes_from_a_file(
    target: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pem = target.authority.issue("keeper").read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    sealed, password = tmp_path / "sealed.key", tmp_path / "password"
    encryption = serialization.BestAvailableEncryption(b"open sesame")
    sealed.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    certificate = tmp_path / "keeper.pem"
    certificate.write_bytes(pem[pem.index(b"-----BEGIN CERTIFICATE") :])

    def create(text: str) -> tuple[int, str]:
        password.write_text(text)
        argv = ["diode", "create", f"--bootstrapServers={target.tls}", "--topic=nowhere"]
        argv += [f"--certFile={certificate}", f"--keyFile={sealed}", f"--keyPasswordFile={password}"]
        code = main([*argv, f"--caFile={target.authority.certificate}"])
        return code, capsys.readouterr().err

    code, said = create("open sesame\n")
    # The broker knows who it is, and gives it nothing.
    assert code in (ExitCode.REFUSED, ExitCode.FAILED)
    assert "nowhere" in said
    code, said = create("open barley\n")
    assert code == ExitCode.REFUSED
    assert "the password of the key is wrong" in said
    assert "barley" not in said
