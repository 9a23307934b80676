"""Repeats by a sending end, and where it and its companions log and keep a key's password."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from relay import Faults, Relay
from test_link import (  # noqa: F401  # fixtures
    Ends,
    assert_equal,
    bundle,
    dedup,
    ends,
    gaps,
    raw,
    relay,
    sent_all,
    source,
    target,
    told_all,
    topic,
    wait_for,
    write,
)

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from servers.broker import Broker


def test_what_was_lost_comes_when_everything_is_sent_again(
    source: Broker,  # noqa: F811
    target: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    ends: Ends,  # noqa: F811
    relay: Relay,  # noqa: F811
    dedup: Callable[..., None],  # noqa: F811
    raw: str,  # noqa: F811
    gaps: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Check repeats without a bundle, and that the sending end logs into a file, and nowhere else."""
    log = tmp_path / "upstream.txt"
    down = ends.downstream()
    up = ends.upstream(repeatAfter="15", logFileName=str(log))
    wait_for(lambda: log.exists() and "following" in log.read_text(), "following")
    relay.faults = Faults(lose=1)
    write(source, topic, 500)
    wait_for(sent_all(source, topic, ends), "sending all")
    relay.faults = Faults()
    wait_for(told_all(source, target, topic, raw), "telling all")

    def filled() -> bool:
        dedup()
        return not bundle(target, gaps, tmp_path)["results"]

    assert not filled(), "nothing was lost: the test proves nothing"
    wait_for(filled, "sending everything again")
    assert assert_equal(source, target, topic) == 500
    ends.stop(up)
    ends.stop(down)
    assert ends.said("upstream") == ""


def test_a_key_s_password_comes_from_a_file(
    target: Broker,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
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
    assert code in (ExitCode.REFUSED, ExitCode.FAILED)
    assert "nowhere" not in said
    assert "Traceback" not in said
