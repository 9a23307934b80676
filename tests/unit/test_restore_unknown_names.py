"""Options of a restore that name something which does not exist."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from aqueduct.kafka.acls import Acl
from aqueduct.kafka.client_config import End
from aqueduct.restore import mirrors, rights
from aqueduct.restore.order import FollowingMirror, RestoreOrder
from aqueduct.restore.request import Request

END = End("cluster", "b:9092")


class EmptyTarget:
    """A cluster that has no topic."""

    end = END

    def topics(self, names: object = None) -> dict[str, object]:
        return {}


def test_a_mirror_without_positions_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def connect(*_: object) -> Iterator[EmptyTarget]:
        yield EmptyTarget()

    monkeypatch.setattr(mirrors, "connect", connect)
    order = RestoreOrder(END, "file:///s", Request(), mirrors=(FollowingMirror("misspelt", END),))
    job = SimpleNamespace(order=order, id="r")
    [skipped] = mirrors.move(job, {}, None)  # type: ignore[arg-type]
    assert (skipped.id, skipped.what) == ("mirror-unknown", "mirror misspelt")
    assert "mm2-offsets.misspelt.internal" in skipped.why


def test_principals_without_acls_in_the_snapshot_are_reported() -> None:
    def acl(name: str) -> Acl:
        return Acl(f"User:{name}", "topic", "t", "literal", "read")

    order = RestoreOrder(
        END,
        "file:///s",
        Request(),
        acls_within=frozenset({acl("a")}),
        acls_of=frozenset({"b", "misspelt"}),
    )
    allowed, left_out = rights.allowed(order, frozenset({acl("a"), acl("b"), acl("c")}))
    assert allowed == {acl("a"), acl("b")}
    assert [(each.id, each.what) for each in left_out] == [
        ("acl-not-allowed", "1 ACL of User:c"),
        ("principal-unknown", "ACLs of User:misspelt"),
    ]
