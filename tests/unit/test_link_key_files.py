"""Keys as files: made once, for their owner alone, and never taken for each other."""

from pathlib import Path

import pytest
from kit.identifiers import printed, raises

from aqueduct.cli import main
from aqueduct.common.keys import ReceiverKey, ReceiverPublicKey, SenderKey, SenderPublicKey, load
from aqueduct.errors import ExitCode, Refused


def keygen(folder: Path, kind: str, name: str, *more: str) -> int:
    return main(["diode", "keygen", "--kind", kind, "--out", str(folder), "--name", name, *more])


@pytest.mark.parametrize("more", [(), ("--x25519",)])
def test_a_pair_belongs_together(tmp_path: Path, more: tuple[str, ...]) -> None:
    assert keygen(tmp_path, "receiver", "down", *more) == ExitCode.DONE
    assert keygen(tmp_path, "sender", "up") == ExitCode.DONE
    private = load(ReceiverKey, tmp_path / "down.key")
    assert private.public == load(ReceiverPublicKey, tmp_path / "down.pub")
    assert load(SenderKey, tmp_path / "up.key").public == load(SenderPublicKey, tmp_path / "up.pub")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"down.key": 0o600, "up.key": 0o600, "down.pub": 0o644, "up.pub": 0o644}


def test_no_key_is_ever_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keygen(tmp_path, "sender", "up")
    before = (tmp_path / "up.key").read_text()
    assert keygen(tmp_path, "sender", "up") == ExitCode.REFUSED
    assert printed(said := capsys.readouterr().err) == ["key-file-not-created"]
    assert "up.key" in said
    assert (tmp_path / "up.key").read_text() == before


@pytest.mark.parametrize(
    ("kind", "name", "id_"),
    [
        (ReceiverPublicKey, "up.pub", "key-file-invalid"),
        (SenderKey, "down.key", "key-file-invalid"),
        (SenderKey, "loose.key", "key-file-permissions"),
        (SenderKey, "none.key", "key-file-unreadable"),
        (SenderPublicKey, "junk.pub", "key-file-invalid"),
    ],
)
def test_files_that_are_no_use(tmp_path: Path, kind: type[SenderKey], name: str, id_: str) -> None:
    keygen(tmp_path, "receiver", "down")
    keygen(tmp_path, "sender", "up")
    keygen(tmp_path, "sender", "loose")
    (tmp_path / "loose.key").chmod(0o640)
    (tmp_path / "junk.pub").write_text("-----BEGIN PUBLIC KEY-----")
    with raises(Refused, id_) as refused:
        load(kind, tmp_path / name)
    assert name in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (("--out", "/no/folder", "--name", "x"), "/no/folder"),
        (("--out", ".", "--name", "a/b"), "'a/b'"),
    ],
)
def test_keygen_refuses(arguments: tuple[str, ...], fact: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diode", "keygen", "--kind", "sender", *arguments]) == ExitCode.REFUSED
    assert printed(said := capsys.readouterr().err) == ["key-file-not-created"]
    assert fact in said
