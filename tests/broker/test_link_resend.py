"""A bundle of a topic that was deleted and made anew since, or of another link."""

import json
from pathlib import Path
from uuid import UUID

import pytest
from kafka_broker import Broker
from test_link import (  # noqa: F401  # fixtures
    Ends,
    ends,
    raw,
    relay,
    source,
    target,
    topic,
    write,
)

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from aqueduct.kafka import client as kafka
from aqueduct.kafka.client_config import End


def test_what_is_missing_of_another_topic_is_not_sent_from_this_one(
    source: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    ends: Ends,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(source, topic, 40)
    with kafka.connect(End("source", source.plaintext), "test") as client:
        now = str(client.topic(topic).id)
    before = str(UUID(int=7))

    def resend(*ids: str | None) -> tuple[ExitCode, str, str]:
        results = [
            {"topic": topic, "partition": number, "gaps": [[0, 4]]} | ({"topic_id": each} if each else {})
            for number, each in enumerate(ids)
        ]
        file = tmp_path / "bundle.json"
        file.write_text(json.dumps({"type": "all", "results": results}))
        options = ends.sending | {"topic": topic, "resendFileName": str(file)}
        code = main(["diode", "resend", *(f"--{name}={value}" for name, value in options.items())])
        return ExitCode(code), *capsys.readouterr()

    code, out, _ = resend(now, before)
    assert code == ExitCode.INCOMPLETE
    assert out.startswith("5 offsets sent, with 5 records in them.")
    assert f"Left out: {topic}-1 is of a topic that was made anew: what is missing was of that with" in out
    code, out, err = resend(before, before)
    assert (code, out) == (ExitCode.REFUSED, "")
    assert "Nothing of it fits the source" in err
    assert "Is the bundle of another link or cluster" in err
    assert resend(None, now)[0] == ExitCode.DONE
