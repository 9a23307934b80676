"""The part of a bundle that is sent."""

import json
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kit.identifiers import assert_printed, has_fact, raises

from aqueduct.cli import diode
from aqueduct.errors import ExitCode, Refused
from aqueduct.kafka.client import Topic
from aqueduct.link import options, resend
from aqueduct.link.ledger.bundle import MissingOffsets
from aqueduct.link.options import Resend
from aqueduct.link.resend import Asked, Resent, fitting

PARTITION: Any = None  # nothing is asked of one but that it is there


def test_resend_skips_entries_of_absent_instances() -> None:
    old, new = (str(UUID(int=number)) for number in (1, 2))
    there = {"t": Topic(UUID(int=2), "t", (PARTITION,))}
    fits = [
        Asked(topic="t", partition=0, first=1, last=2, topic_id=new),
        Asked(topic="t", partition=0, first=4, last=4),
    ]
    wrong = [
        Asked(topic="t", partition=0, first=0, last=9, topic_id=old),
        Asked(topic="t", partition=1, first=0, last=9, topic_id=new),
        Asked(topic="none", partition=0, first=0, last=9),
    ]
    found, misfits = fitting(fits + wrong, there)
    assert found == fits
    assert [each.split(" ")[0] for each in misfits] == ["t-0", "t-1", "none-0"]
    assert has_fact(misfits[0], old)
    assert has_fact(misfits[0], new)


@pytest.fixture
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resend:
    """Return the options of a resend over a link that sends the topic flights, of a source without topics."""

    @contextmanager
    def connect(*_: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(end="source", topics=lambda _: {})

    monkeypatch.setattr(resend, "connect", connect)
    monkeypatch.setattr(resend, "Outlet", lambda *_: None)
    monkeypatch.setattr(resend, "_there", lambda *_: ([], [], []))
    given = {
        "bootstrapServers": "b:9092",
        "targetIP": "127.0.0.1",
        "topics": "flights",
        "publicKeyFile": "r.pub",
        "signingKeyFile": "s.key",
        "resendFileName": str(tmp_path / "bundle.json"),
    }
    return options.build(Resend, None, {}, given, pytest.fail)


def write_bundle(link: Resend, *topics: str) -> None:
    results = [{"topic": topic, "partition": 0, "gaps": [[5, 9]]} for topic in topics]
    assert link.resend_file_name
    link.resend_file_name.write_text(json.dumps({"type": "all", "results": results}))


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("topics", [["crews"], ["crews", "radar"], ["flights"], ["crews", "flights"]])
def test_bundle_without_sendable_offsets_is_refused(topics: list[str], dry_run: bool, link: Resend) -> None:
    write_bundle(link, *topics)
    with raises(Refused, "bundle-mismatch", f"{topics[-1] if 'flights' in topics else topics[0]}-0"):
        resend.run(link, dry_run=dry_run, progress=lambda *_: None)


def test_empty_bundle_is_not_refused(link: Resend) -> None:
    write_bundle(link)
    assert resend.run(link, dry_run=True, progress=lambda *_: None) == Resent()


def test_skipped_offsets_of_bundle_have_identifiers(
    link: Resend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others = tuple(MissingOffsets(topic="crews", partition=number, gaps=[(5, 9)]) for number in (0, 3))
    outcome = Resent(offsets=5, records=5, others=others)
    monkeypatch.setattr(resend, "run", lambda *_, **__: outcome)
    assert diode._resend(link, Namespace(dry_run=False)) == ExitCode.DONE
    assert_printed(capsys.readouterr().err, "bundle-partition-uncovered", 10, "crews-0", "crews-3")
