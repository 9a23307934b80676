"""Impossible options are refused before any connection: no broker runs in these tests."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from aqueduct.link import outlet

NOBODY = "127.0.0.1:1"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    for kind, name in (("receiver", "down"), ("sender", "up"), ("sender", "loose")):
        assert main(["diode", "keygen", "--kind", kind, "--out", str(tmp_path), "--name", name]) == 0
    (tmp_path / "loose.key").chmod(0o644)
    (tmp_path / "bundle.json").write_text('{"type": "all", "results": []}')
    return tmp_path


def sending(keys: Path, verb: str) -> dict[str, str]:
    return {
        "targetIP": "127.0.0.1", "publicKeyFile": f"{keys}/down.pub", "signingKeyFile": f"{keys}/up.key",
        **({"topic": "flights"} if verb == "upstream" else {"resendFileName": f"{keys}/bundle.json"}),
    }  # fmt: skip


@pytest.mark.parametrize("verb", ["upstream", "resend"])
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"publicKeyFile": "{}/up.pub"}, "up.pub is a sender's public key. Pass a receiver's"),
        ({"publicKeyFile": "{}/none.pub"}, "none.pub: No such file"),
        ({"signingKeyFile": "{}/loose.key"}, "[key-file-permissions]"),
        ({"targetIP": "no-such-host.invalid"}, "'no-such-host.invalid' cannot be resolved"),
        ({"nic": "no-such-card"}, "nic 'no-such-card'"),
        ({"payloadSize": "9000", "mtu": "1500"}, "payloadSize 9000 is too large for the MTU"),
    ],
)  # fmt: skip
def test_the_sending_end_looks_at_its_files_first(
    keys: Path, capsys: pytest.CaptureFixture[str], verb: str, changed: dict[str, str], sentence: str
) -> None:
    options = sending(keys, verb) | {name: value.format(keys) for name, value in changed.items()}
    code = main(["diode", verb, "--bootstrap-server", NOBODY, *_argv(options)])
    assert (code, sentence in capsys.readouterr().err) == (ExitCode.REFUSED, True)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"privateKeyFiles": "{}/down.pub"}, "down.pub is a receiver's public key"),
        ({"privateKeyFiles": "{0}/down.key,{0}/none.key"}, "none.key: No such file"),
        ({"senderPublicKeyFile": "{}/up.key"}, "up.key is a sender's private key"),
        ({"stateDir": "{}/none"}, "stateDir"),
    ],
)
def test_the_receiving_end_looks_at_its_files_first(
    keys: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, str], sentence: str
) -> None:
    options = {
        "privateKeyFiles": f"{keys}/down.key", "senderPublicKeyFile": f"{keys}/up.pub",
        "stateDir": str(keys), "rawTopic": "raw",
    } | {name: value.format(keys) for name, value in changed.items()}  # fmt: skip
    code = main(["diode", "downstream", "--bootstrap-server", NOBODY, *_argv(options)])
    assert (code, sentence in capsys.readouterr().err) == (ExitCode.REFUSED, True)


@pytest.mark.parametrize("verb", ["upstream", "resend"])
@pytest.mark.parametrize(
    ("wall", "year"), [(0, 1970), (1_577_880_000_000, 2020), (4_903_286_400_000, 2125), (1 << 62, 146140482)]
)
def test_sending_end_refuses_implausible_clock(
    keys: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    wall: int,
    year: int,
) -> None:
    monkeypatch.setattr(outlet, "timestamps", SimpleNamespace(now=lambda: wall))
    code = main(["diode", verb, "--bootstrap-server", NOBODY, *_argv(sending(keys, verb))])
    assert (code, f"its year is {year}. Set the clock" in capsys.readouterr().err) == (ExitCode.REFUSED, True)


def test_a_clock_that_can_be_right() -> None:
    outlet.check_clock()


def test_an_option_that_is_given_twice(capsys: pytest.CaptureFixture[str]) -> None:
    for twice in (
        ["--eps=1", "--eps=1"],
        ["--targetIP=a", "--target-ip=b"],
        ["--batchSize=1", "--batch-size=2"],
    ):
        assert main(["diode", "upstream", *twice]) == ExitCode.REFUSED
        assert "given twice; remove one" in capsys.readouterr().err


def test_an_option_is_called_as_it_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diode", "upstream", "--from=yesterday"]) == ExitCode.REFUSED
    assert "command line: from is not a time" in capsys.readouterr().err
    assert main(["diode", "resend", "--payload-size=abc"]) == ExitCode.REFUSED
    assert "command line: payloadSize must be" in capsys.readouterr().err


def _argv(options: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]
