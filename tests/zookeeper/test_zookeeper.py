"""`aqueduct zookeeper` with a real ensemble, which is also asked by ZooKeeper's own client in Java."""

import hashlib
import json
import re
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
import zstandard
from kazoo.client import KazooClient
from kazoo.protocol.serialization import SetACL, SetData, stat_struct
from kazoo.security import ACL, Id, make_acl, make_digest_acl
from kit.identifiers import assert_printed, printed

from aqueduct.cli import main
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.recovery.zookeeper import backup, client, reading, restore, snapshots
from aqueduct.recovery.zookeeper.client import Ensemble, ZooKeeperSession
from aqueduct.recovery.zookeeper.znodes import Right, Znode
from aqueduct.work import progress
from servers import object_store, zookeeper
from servers.pki import Authority
from servers.process import free_ports
from servers.zookeeper import ZooKeeper

SECRET = "hunter2-of-nobody"  # noqa: S105
KAFKA = json.dumps({"version": "1", "id": "kafka-cluster-of-tests"}).encode()
ANYONE = Id("world", "anyone")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with zookeeper.running(tmp_path_factory.mktemp("zookeeper")) as started:
        yield started


@dataclass
class Tree:
    """A chroot of its own on a server."""

    server: ZooKeeper
    connect: str
    client: KazooClient

    def fill(self) -> None:
        make = self.client.create
        make("/cluster/id", KAFKA, makepath=True)
        make("/brokers/topics/a", b'{"partitions":{"0":[1]}}', makepath=True)
        make("/brokers/topics/b", bytes(range(256)))
        make("/brokers/ids/1", b"{}", makepath=True, ephemeral=True)
        make("/config/users/anna", SECRET.encode(), makepath=True)
        make("/empty")
        make("/nothing at all ä", None)
        make("/isr/isr_change_", b"x", makepath=True, sequence=True)
        rights = [make_acl("ip", "127.0.0.1", all=True), ACL(1, ANYONE)]
        make("/guarded", b"by two", acl=rights)
        make(
            "/guarded/of digest", b"by one", acl=[make_digest_acl("anna", SECRET, all=True), ACL(31, ANYONE)]
        )
        for number in range(3):
            self.client.set("/brokers/topics/a", b'{"partitions":{"0":[%d]}}' % number)

    def content(self) -> dict[str, tuple[bytes, frozenset[ACL]]]:
        """Return what every persistent znode has, by a client of its own: many requests at once."""
        self.client.sync("/")  # its server may lag behind the one that a verb has written to
        found, level = {}, ["/"]
        get, acls, children = (
            self.client.get_async,
            self.client.get_acls_async,
            self.client.get_children_async,
        )
        while level:
            asked = [(path, get(path), acls(path), children(path)) for path in level]
            level = []
            for path, content, rights, below in asked:
                data, stat = content.get()
                if not stat.ephemeralOwner:
                    found[path] = (data or b"", frozenset(rights.get()[0]))
                level += [f"{path.rstrip('/')}/{child}" for child in below.get()]
        return found


@contextmanager
def _tree(server: ZooKeeper, connect: str) -> Iterator[Tree]:
    client = KazooClient(connect)
    client.start(120)
    client.ensure_path("/")
    try:
        yield Tree(server, connect, client)
    finally:
        client.stop()
        client.close()


@pytest.fixture
def trees(server: ZooKeeper, request: pytest.FixtureRequest) -> Iterator[list[Tree]]:
    chroot = "/" + re.sub(r"[^a-z0-9]", "-", request.node.name.lower())
    with ExitStack() as stack:
        names = ("one", "other")
        yield [stack.enter_context(_tree(server, f"{server.connect}{chroot}-{name}")) for name in names]


@pytest.fixture
def tree(trees: list[Tree]) -> Tree:
    return trees[0]


@pytest.fixture
def other(trees: list[Tree]) -> Tree:
    return trees[1]


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store"


def run(what: str, store: str, connect: str, *options: str) -> int:
    return main(["zookeeper", what, "--store", store, "--connect", connect, *options])


def test_all_comes_back_with_acls_and_nothing_else(
    tree: Tree, other: Tree, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.fill()
    report = tmp_path / "report.json"
    assert run("backup", store, tree.connect, "--report", str(report)) == 0
    said = capsys.readouterr().out
    assert "Snapshot 1 of" in said
    assert "1 ephemeral znode, /brokers/ids/1." in said
    assert "After a restore, ZooKeeper numbers sequential children from 0 again, below /isr." in said
    told = json.loads(report.read_text())
    assert (told["cluster"], told["ephemeral"]) == ("kafka-cluster-of-tests", ["/brokers/ids/1"])

    assert run("restore", store, other.connect) == 0
    assert other.content() == tree.content()
    assert not other.client.exists("/brokers/ids/1")
    # As ZooKeeper's own client sees both.
    chroots = ["/" + each.connect.partition("/")[2] for each in (tree, other)]
    listed = other.server.shell("ls", "-R", "/").splitlines()
    paths = [
        {line.removeprefix(chroot) for line in listed if line.startswith(f"{chroot}/")} for chroot in chroots
    ]
    assert paths[0] - paths[1] == {"/brokers/ids/1"}
    assert paths[1] <= paths[0]
    acls = [other.server.shell("getAcl", f"{chroot}/guarded") for chroot in chroots]
    assert acls[0].splitlines()[-4:] == acls[1].splitlines()[-4:]
    assert "'ip,'127.0.0.1" in acls[1]

    assert run("diff", store, other.connect) == 0
    assert run("restore", store, other.connect) == 0
    assert "0 znodes created, 0 overwritten, 17 were equal before." in capsys.readouterr().out


def test_null_comes_back_as_null(tree: Tree, other: Tree, store: str) -> None:
    """Kafka writes null to the znodes above partitions' states; null and empty data are two to clients."""
    for number, data in enumerate((None, b"", b"x")):
        tree.client.create(f"/{number}", b"")
        session = ZooKeeperSession(_ensemble(tree.connect))
        session.ask(SetData(session.at(f"/{number}"), data, -1))
        session.close()
    assert run("backup", store, tree.connect) == 0
    other.client.create("/2", b"y")
    other.client.create("/0", b"")
    assert run("restore", store, other.connect, "--overwrite", "/2") == 0
    other.client.delete("/0")
    assert run("restore", store, other.connect) == 0
    assert [other.client.get(f"/{number}")[0] for number in range(3)] == [None, b"", b"x"]
    said = other.server.shell("get", f"/{other.connect.partition('/')[2]}/0")
    assert said.splitlines()[-1] == "null"


def test_existing_different_znode_stays_unless_overwrite_names_it(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.fill()
    assert run("backup", store, tree.connect) == 0
    other.client.create("/brokers/topics/a", b"newer", makepath=True)
    other.client.create("/guarded", b"by two")
    other.client.create("/own", b"of the other")
    assert run("restore", store, other.connect, "--dry-run") == 3
    assert set(other.content()) == {
        "/",
        "/brokers",
        "/brokers/topics",
        "/brokers/topics/a",
        "/guarded",
        "/own",
    }
    assert run("restore", store, other.connect, "--overwrite", "/guarded") == 3
    said = capsys.readouterr().out
    assert "/brokers/topics/a: it differs in data." in said
    assert ", 1 overwritten, " in said
    want = tree.content() | {"/brokers/topics/a": (b"newer", other.content()["/own"][1])}
    assert other.content() == want | {"/own": (b"of the other", other.content()["/own"][1])}
    assert run("diff", store, other.connect) == 3
    said = capsys.readouterr().out
    assert "0 missing, 1 changed, 1 added, 0 not compared." in said
    assert "~ /brokers/topics/a (data)\n+ /own" in said
    assert run("restore", store, other.connect, "--overwrite", "/brokers/topics/a") == 0
    assert run("restore", store, other.connect, "--overwrite", "/nowhere") == 2


@pytest.mark.parametrize(
    ("letters", "refused"),
    [("cdrw", "ACL"), ("cdra", "data"), ("cdr", "data")],
    ids=["no admin", "no write", "none"],
)
def test_of_what_may_not_be_overwritten_nothing_is(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str], letters: str, refused: str
) -> None:
    """Data and ACL are each written by a right of its own: one of both is no restore."""
    rights = [make_acl("world", "anyone", **{_RIGHTS[each]: True for each in letters})]
    for path in ("/both", "/data"):
        tree.client.create(path, b"of the snapshot")
    tree.client.set_acls("/data", rights)
    assert run("backup", store, tree.connect) == 0
    for path in ("/both", "/data"):
        other.client.create(path, b"other", acl=rights)
    named = ("--overwrite", "/both", "--overwrite", "/data")
    assert run("restore", store, other.connect, *named) == 3
    said = capsys.readouterr().out
    assert f"NOT restored: /both: its {refused} cannot be written, so nothing was written: an ACL" in said
    assert other.content()["/both"] == (b"other", frozenset(rights))
    # What of one is not other needs no right.
    assert (f", {int('w' in letters)} overwritten, " in said, "/data:" in said) == (True, "w" not in letters)
    assert other.content()["/data"][0] == (b"of the snapshot" if "w" in letters else b"other")


_RIGHTS = {"c": "create", "d": "delete", "r": "read", "w": "write", "a": "admin"}


def test_what_was_overwritten_by_half_says_so(
    tree: Tree,
    other: Tree,
    store: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Somebody takes the right away after it was tried."""
    tree.client.create("/both", b"of the snapshot", acl=[make_acl("ip", "127.0.0.1", all=True)])
    assert run("backup", store, tree.connect) == 0
    other.client.create("/both", b"other")
    rights = [make_acl("world", "anyone", read=True, write=True)]
    tried = restore._tried

    def take_away(session: ZooKeeperSession, znode: Znode, request: object) -> object:
        if getattr(request, "version", 0) == restore.ANY_VERSION and isinstance(request, SetACL):
            other.client.set_acls("/both", rights)
        return tried(session, znode, request)

    monkeypatch.setattr(restore, "_tried", take_away)
    assert run("restore", store, other.connect, "--overwrite", "/both") == 3
    said = capsys.readouterr().out
    assert "NOT restored: /both: its data was overwritten, but its ACL cannot be written: an ACL" in said
    assert other.content()["/both"] == (b"of the snapshot", frozenset(rights))


def test_another_cluster_is_refused(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.fill()
    assert run("backup", store, tree.connect) == 0
    other.client.create("/cluster/id", KAFKA.replace(b"of-tests", b"other"), makepath=True)
    before = other.content()
    assert run("restore", store, other.connect) == 2
    assert run("backup", store, other.connect) == 2
    said = capsys.readouterr().err
    assert said.count("[cluster-mismatch] ") == 2
    assert_printed(said, "cluster-mismatch", "kafka-cluster-other", "snapshot 1", "kafka-cluster-of-tests")
    assert other.content() == before


def test_prefix_is_created_but_missing_chroot_is_refused(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.fill()
    assert run("backup", store, tree.connect) == 0
    assert run("restore", store, other.connect + "/nowhere") == 2
    assert printed(capsys.readouterr().err) == ["zookeeper-chroot-missing"]
    assert run("restore", store, other.connect, "--prefix", "/kafka/a", "--dry-run") == 0
    assert set(other.content()) == {"/"}
    assert run("restore", store, other.connect, "--prefix", "/kafka/a") == 0
    below = {path: of for path, of in other.content().items() if path.startswith("/kafka/a")}
    assert {path.removeprefix("/kafka/a") or "/": of for path, of in below.items()} == tree.content()


@pytest.mark.long
def test_many_znodes_are_restored_with_progress_messages(
    tree: Tree, other: Tree, store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.001)
    tree.client.ensure_path("/many")
    made = [tree.client.create_async(f"/many/{number}", str(number).encode()) for number in range(1000)]
    assert len([each.get() for each in made]) == 1000
    tree.client.create("/many/7/below", b"it")
    for what, where in (("backup", tree), ("restore", other)):
        assert run(what, store, where.connect) == 0
        said = capsys.readouterr().err
        assert re.search(r"^\d+ of 1,000 znodes done, [\d,.]+ per \w+, about \d+ s left$", said, re.MULTILINE)
    assert len(other.content()) == 1003
    assert other.content() == tree.content()


def test_a_snapshot_is_of_one_moment(tree: Tree, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two znodes that are written at once are equal in it, although they change between their reads."""
    both = ("/first", "/second")
    for name in both:
        tree.client.create(name, b"0")
    with_data, writes = reading._with_data, iter(range(1, 4))

    def change_after(seen: reading.Seen, answer: tuple[bytes, object]) -> reading.Seen:
        """Change both between their answers, which come one by one."""
        if seen.path == "/first" and (number := next(writes, None)):
            at_once = tree.client.transaction()
            for name in both:
                at_once.set_data(name, str(number).encode())
            at_once.commit()
        return with_data(seen, answer)

    monkeypatch.setattr(client, "AT_ONCE", 1)
    monkeypatch.setattr(reading, "_with_data", change_after)
    made = backup.backup(_ensemble(tree.connect), store).snapshot
    assert (made.moving, [made.znodes[name].data for name in both]) == ((), [b"3", b"3"])


@pytest.mark.parametrize(
    "change",
    [
        lambda client: client.set("/first", b"1"),
        lambda client: client.set_acls("/first", [make_acl("world", "anyone", all=True), ACL(1, ANYONE)]),
        lambda client: client.create("/first/below", b"1"),
        lambda client: client.delete("/first/there"),
        lambda client: client.delete("/second/there") and client.create("/second/there", b"0"),
        lambda client: client.create("/first/short", b"1", ephemeral=True),
    ],
    ids=["data", "ACL", "a child more", "a child less", "one made again", "an ephemeral one"],
)
def test_znode_changed_after_reading_is_read_again(
    tree: Tree, store: str, monkeypatch: pytest.MonkeyPatch, change: Callable[[KazooClient], object]
) -> None:
    for path in ("/first/there", "/second/there", "/third"):
        tree.client.create(path, b"0", makepath=True)
    look, looks = reading._look, count()

    def change_after(session: ZooKeeperSession, paths: list[str]) -> list[reading.Seen]:
        found = look(session, paths)
        if "/first/there" in paths and not next(looks):
            change(tree.client)
        return found

    monkeypatch.setattr(reading, "_look", change_after)
    made = backup.backup(_ensemble(tree.connect), store).snapshot
    assert made.complete
    want = tree.content()
    assert {path: each.data or b"" for path, each in made.znodes.items()} == {
        p: of[0] for p, of in want.items()
    }
    assert {path: each.content[1] for path, each in made.znodes.items()} == {
        path: frozenset(Right(each.perms, *each.id) for each in acl) for path, (_, acl) in want.items()
    }
    assert ("/first/short" in made.ephemeral) == bool(tree.client.exists("/first/short"))


def test_what_changes_all_the_time_is_named(
    tree: Tree, store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.client.create("/restless", b"")
    now, number = ZooKeeperSession.now, 0

    def change_first(session: ZooKeeperSession) -> int:
        nonlocal number
        number += 1
        tree.client.set("/restless", str(number).encode())
        return now(session)

    monkeypatch.setattr(ZooKeeperSession, "now", change_first)
    monkeypatch.setattr(reading, "PAUSE_SECONDS", 0)
    assert run("backup", store, tree.connect) == 3
    said = capsys.readouterr().out
    assert "NOT consistent: some znodes changed meanwhile" in said
    assert "NOT consistent, because they changed while they were read: /restless." in said


def test_what_can_t_be_read_is_named(tree: Tree, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    tree.client.create("/open", b"")
    tree.client.create("/shut", b"x", acl=[make_digest_acl("anna", SECRET, all=True)])
    assert run("backup", store, tree.connect) == 3
    said = capsys.readouterr().out
    assert f"NOT kept: /shut: {reading.NO_ACCESS}" in said


def test_masked_acl_digest_is_not_backed_up(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who may read, and not change the ACL, is told `anna:x` (CVE-2019-0201), which is no password's."""
    rights = [make_digest_acl("anna", SECRET, all=True), ACL(1, ANYONE)]
    tree.client.create("/masked/below/it", b"x", makepath=True)
    tree.client.create("/masked/too/it", b"y", makepath=True)
    tree.client.create("/masked/short", b"", ephemeral=True)
    before = tree.content()
    for path in ("/masked/too", "/masked"):
        tree.client.set_acls(path, rights)
    assert run("backup", store, tree.connect) == 3
    said = capsys.readouterr().out
    for path in ("/masked", "/masked/too"):
        assert f"NOT kept: {path}: {reading.MASKED}" in said
    assert "4 znodes, 2 bytes" in said
    assert "1 ephemeral znode, /masked/short." in said
    assert run("diff", store, tree.connect) == 3
    assert "0 missing, 0 changed, 0 added, 2 not compared." in capsys.readouterr().out
    # What is below comes back where what was left out is there again.
    assert run("restore", store, other.connect) == 3
    said = capsys.readouterr().out
    assert "NOT in the snapshot: /masked: its ACL" in said
    assert "NOT restored: /masked/below: its parent does not exist." in said
    for path in ("/masked", "/masked/too"):
        other.client.create(path, b"")
    assert run("restore", store, other.connect) == 3
    assert "NOT restored" not in capsys.readouterr().out
    assert other.content() == before


def test_a_chroot_s_top_may_be_masked(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.client.create("/below", b"x")
    tree.client.set_acls("/", [make_digest_acl("anna", SECRET, all=True), ACL(1, ANYONE)])
    assert run("backup", store, tree.connect) == 3
    assert f"NOT kept: /: {reading.MASKED}" in capsys.readouterr().out
    assert run("restore", store, other.connect) == 3
    assert other.client.get("/below")[0] == b"x"


def test_an_acl_with_half_a_letter_is_none() -> None:
    """No server of today gives one; what is below such a znode would be read all the same."""
    letters = "\ud800:of nobody".encode("utf-8", "surrogatepass")
    entry = [struct.pack("!iii", 1, 31, 6), b"digest", struct.pack("!i", len(letters)), letters]
    answer = b"".join([*entry, stat_struct.pack(*range(1, 8), 0, *range(8, 11))])
    rights, stat = client.GetRights.deserialize(answer, 0)
    seen, state = reading._state("/odd", (rights, stat))
    assert (rights, state) == (None, stat)
    assert (seen.znode, seen.left_out in reading.KEPT_BELOW) == (None, True)


def test_an_acl_of_any_letters_comes_back(tree: Tree, other: Tree, store: str) -> None:
    """Kafka's principals are what a certificate or a Kerberos realm calls them."""
    names = ["\ue000 private", "\ufffd", "\U0001f40d beyond 65,536", "a\u0085b", "Zoë"]
    for number, name in enumerate(names):
        anna = make_digest_acl(name, SECRET, all=True)
        tree.client.create(f"/{number}", b"x", acl=[anna, ACL(31, ANYONE)])
    assert run("backup", store, tree.connect) == 0
    assert run("restore", store, other.connect) == 0
    assert run("diff", store, other.connect) == 0
    for number, name in enumerate(names):
        mine = KazooClient(other.connect, auth_data=[("digest", f"{name}:{SECRET}")])
        mine.start(120)
        mine.set_acls(f"/{number}", [make_digest_acl(name, SECRET, all=True)])
        assert mine.get(f"/{number}")[0] == b"x"
        mine.stop()
        mine.close()


def test_no_data_and_no_password_is_shown(
    tree: Tree, other: Tree, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.fill()
    other.client.create("/config/users/anna", b"other " + SECRET.encode(), makepath=True)
    other.client.create("/guarded/of digest", b"", makepath=True)
    files = [tmp_path / f"{name}.json" for name in ("backup", "restore", "diff")]
    for what, connect, file in zip(("backup", "restore", "diff"), (tree, other, other), files, strict=True):
        run(what, store, connect.connect, "--report", str(file))
    main(["zookeeper", "snapshots", "--store", store])
    said = "".join(capsys.readouterr()) + "".join(file.read_text() for file in files)
    assert "/config/users/anna" in said
    hashed = make_digest_acl("anna", SECRET, all=True).id.id.partition(":")[2]
    assert SECRET not in said
    assert hashed not in said


def test_only_the_newest_are_kept(tree: Tree, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    tree.fill()
    for _ in range(3):
        assert run("backup", store, tree.connect) == 0
    assert run("backup", store, tree.connect, "--keep", "2") == 0
    assert "Removed: 2 older snapshots, 1, 2." in capsys.readouterr().out
    assert main(["zookeeper", "snapshots", "--store", store]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["3", "4"]


def test_a_directory_is_for_its_owner_alone(tree: Tree, tmp_path: Path) -> None:
    tree.fill()
    assert run("backup", f"file://{tmp_path}/store", tree.connect) == 0
    made = [tmp_path / "store", *(tmp_path / "store").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}


def test_backup_reads_only_start_of_previous_snapshot(
    tree: Tree, other: Tree, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.fill()
    assert run("backup", store, tree.connect) == 0
    [file] = Path(store.removeprefix("file://"), "znodes").iterdir()
    with monkeypatch.context() as patch:
        patch.delattr(snapshots, "decode")
        assert run("backup", store, tree.connect) == 0
    # What the start tells is believed only where it agrees: else it may be damage.
    unpacked = zstandard.decompress(file.read_bytes())
    file.with_stem("00000000000000000003.jsonl").write_bytes(
        zstandard.compress(unpacked.replace(b"kafka-cluster-of-tests", b"kafka-cluster-of-toads"))
    )
    assert run("backup", store, tree.connect) == 0
    assert run("backup", store, other.connect) == 2


def test_a_store_of_s3(
    tree: Tree,
    other: Tree,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tree.fill()
    store = "s3://store/znodes-of-one"
    with object_store.running(tmp_path, Authority(tmp_path / "pki")) as gateway:
        for name, value in gateway.environment.items():
            monkeypatch.setenv(name, value)
        for _ in range(3):
            assert run("backup", store, tree.connect, "--keep", "2") == 0
        kept = sorted(path.name for path in (gateway.bucket("store") / "znodes-of-one/znodes").iterdir())
        assert kept == [f"{number:020}.jsonl.zst" for number in (2, 3)]
        assert run("backup", store, other.connect) == 2  # without the cluster's id
        assert run("restore", store, other.connect) == 0
        assert run("diff", store, other.connect) == 0
        assert main(["zookeeper", "snapshots", "--store", store]) == 0
        capsys.readouterr()
        newest = gateway.bucket("store") / "znodes-of-one/znodes" / kept[-1]
        newest.write_bytes(newest.read_bytes()[:-9])
        assert run("restore", store, other.connect) == 1
        assert "is damaged" in capsys.readouterr().err
    assert other.content() == tree.content()


@pytest.mark.parametrize("what", ["backup", pytest.param("restore", marks=pytest.mark.long)])
def test_an_ensemble_goes_on_without_its_leader(
    tmp_path: Path,
    store: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: str,
) -> None:
    """It is killed in the middle: what has no answer is asked again when there is another one."""
    with zookeeper.ensemble(tmp_path) as servers:
        first = zookeeper.leader(servers)
        connect = ",".join(each.connect for each in sorted(servers, key=lambda each: each != first))
        with ExitStack() as stack:
            tree, other = (stack.enter_context(_tree(first, f"{connect}/{name}")) for name in ("a", "b"))
            tree.fill()
            made = [tree.client.create_async(f"/config/{number}", b"%d" % number) for number in range(1500)]
            assert len([each.get() for each in made]) == 1500
            if what == "restore":
                assert run("backup", store, tree.connect) == 0
            module, name = {"backup": (reading, "_with_data"), "restore": (restore, "_refusal")}[what]
            answered, times = getattr(module, name), count()

            def kill(*arguments: object) -> object:
                if next(times) == 750:  # of 1500: requests without an answer, and unsent ones, remain
                    first.process.kill()
                return answered(*arguments)

            monkeypatch.setattr(module, name, kill)
            assert run(what, store, {"backup": tree, "restore": other}[what].connect) == 0
            assert next(times) > 1500
            assert "Mode: " not in zookeeper.said(first.port)
            if what == "backup":
                assert run("restore", store, other.connect) == 0
            assert "1,516 znodes created, 0 overwritten, 1 were equal before." in capsys.readouterr().out
            restored = other.content()
            assert restored == tree.content()
            assert len(restored) == 1517


def test_a_damaged_snapshot_is_a_sentence(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.fill()
    for _ in range(2):
        assert run("backup", store, tree.connect) == 0
    [_, newest] = sorted(Path(store.removeprefix("file://"), "znodes").iterdir())
    whole = newest.read_bytes()
    for at in range(0, len(whole), 7):
        newest.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        code = run("restore", store, other.connect)
        said = capsys.readouterr().err
        assert code == 1, at
        assert "is damaged" in said
        assert "--snapshot 1" in said
    assert other.content().keys() == {"/"}
    assert main(["zookeeper", "snapshots", "--store", store]) == 1
    assert run("restore", store, other.connect, "--snapshot", "1") == 0
    assert run("restore", store, other.connect, "--snapshot", "9") == 2


def test_interrupted_restore_reports_created_znodes_and_resumes(
    tmp_path: Path,
    tree: Tree,
    store: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(40):
        tree.client.create(f"/a/{number}/b", str(number).encode(), makepath=True)
    assert run("backup", store, tree.connect) == 0
    report = tmp_path / "report.json"
    (tmp_path / "new").mkdir()
    with zookeeper.running(tmp_path / "new") as new:
        written = restore._written
        levels = 0

        def cut(*arguments: object) -> object:
            nonlocal levels
            levels += 1
            if levels == 3:
                new.process.kill()
            return written(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(restore, "_written", cut)
        monkeypatch.setattr(client, "AGAIN_SECONDS", 1)
        assert run("restore", store, new.connect, "--report", str(report)) == 1
        assert_printed(capsys.readouterr().err, "zookeeper-unreachable", "stopped answering")
        done = json.loads(report.read_text())["created"]
        assert done == ["/a", *sorted(f"/a/{number}" for number in range(40))]
        new.process.start()
        assert run("restore", store, new.connect) == 0
        assert "40 znodes created, 0 overwritten, 42 were equal before." in capsys.readouterr().out


def test_restore_names_znode_over_limit_and_restores_others(
    tmp_path: Path, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "roomy").mkdir()
    with zookeeper.running(tmp_path / "roomy", jvm=("-Djute.maxbuffer=20000000",)) as roomy:
        client = KazooClient(roomy.connect)
        client.start(120)
        client.create("/before", b"1")
        client.create("/large", bytes(10_000_000))
        client.create("/large/below", b"1")
        client.create("/medium", bytes(1_000_000))
        assert run("backup", store, roomy.connect) == 0
        client.stop()
        client.close()
    assert run("restore", store, other.connect) == 3
    said = capsys.readouterr().out
    assert re.search(r"NOT restored: /large: .* 10,000,000 bytes.*jute.maxbuffer", said)
    assert "NOT restored: /large/below: /large could not be created." in said
    assert set(other.content()) == {"/", "/before", "/medium"}


@pytest.mark.parametrize("local", ["localSessionsEnabled=true\n", ""], ids=["local sessions", "none"])
def test_who_only_reads_is_refused(
    tmp_path: Path,
    store: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    local: str,
) -> None:
    """It gives a session that only reads, or none where it may not make local ones."""
    monkeypatch.setattr("aqueduct.recovery.zookeeper.client.CONNECT_SECONDS", 1)
    with zookeeper.running(
        tmp_path, jvm=("-Dreadonlymode.enabled=true",), more=local + _alone(tmp_path)
    ) as one:
        deadline = time.monotonic() + 180
        while "read-only" not in zookeeper.said(one.port) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert run("backup", store, one.connect) == 2
        assert_printed(capsys.readouterr().err, "zookeeper-unreachable", one.connect, "read-only", "quorum")


def _alone(directory: Path) -> str:
    """Return settings of a server whose ensemble is not there."""
    (directory / "data").mkdir()
    (directory / "data/myid").write_text("1")
    return "server.1=127.0.0.1:{}:{}\nserver.2=127.0.0.1:{}:{}\n".format(*free_ports(4))


def test_who_does_not_answer_is_refused(
    tmp_path: Path, store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aqueduct.recovery.zookeeper.client.CONNECT_SECONDS", 1)
    with zookeeper.running(tmp_path, more=_alone(tmp_path)) as one:
        assert run("backup", store, one.connect) == 2
        assert_printed(capsys.readouterr().err, "zookeeper-unreachable", one.connect, "has no quorum")
        with one.process.silent():
            assert run("backup", store, one.connect) == 2
        assert_printed(capsys.readouterr().err, "zookeeper-unreachable", one.connect, "within 5 s")
    assert run("backup", store, one.connect) == 2
    assert_printed(capsys.readouterr().err, "zookeeper-unreachable", one.connect, "refuses connections")


def test_with_mutual_tls(
    tmp_path: Path, store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "pki")
    (tmp_path / "server").mkdir()
    with zookeeper.running(tmp_path / "server", authority) as server:
        config = str(authority.client_config("backup-x"))
        secure = f"127.0.0.1:{server.secure_port}"
        assert run("backup", store, secure, "--command-config", config) == 0
        monkeypatch.setattr("aqueduct.recovery.zookeeper.client.CONNECT_SECONDS", 3)
        other = Authority(tmp_path / "stranger")
        stranger = str(other.client_config("backup-x", trust=authority))
        trusting = str(authority.client_config("backup-y", trust=other))
        for connect, options, sentence in (
            (secure, ("--command-config", stranger), "rejects the certificate of this client ("),
            (secure, ("--command-config", trusting), "has a certificate that this client does not trust ("),
            (f"localhost:{server.secure_port}", ("--command-config", config), "Hostname mismatch"),
            (secure, (), "uses TLS on this port. Pass its clientPort"),
            (
                server.connect,
                ("--command-config", config),
                "does not use TLS on this port. Pass its secureClientPort",
            ),
        ):
            assert run("backup", store, connect, *options) == 2
            assert f"ZooKeeper at {connect} " in (said := capsys.readouterr().err)
            assert sentence in said
            assert len(said.splitlines()) == 1
        assert not Path(store.removeprefix("file://"), "znodes/00000000000000000002.jsonl.zst").exists()


def test_lost_ensemble_displaces_no_good_snapshot(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where disks were lost, the ensemble is up and empty, and the timer goes on."""
    tree.fill()
    assert run("backup", store, tree.connect, "--keep", "1") == 0
    assert run("backup", store, other.connect, "--keep", "1") == 2
    assert_printed(capsys.readouterr().err, "cluster-mismatch", other.connect)
    assert run("diff", store, tree.connect) == 0


def test_emptied_ensemble_without_cluster_id_displaces_no_snapshot(
    tree: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a cluster's id it can't be told from one that is meant so; also not on the days after."""
    for number in range(10):
        tree.client.create(f"/of-solr/{number}", b"x", makepath=True)
    before = tree.content()
    assert run("backup", store, tree.connect, "--keep", "1") == 0
    tree.client.delete("/of-solr", recursive=True)
    for _ in range(2):
        capsys.readouterr()
        assert run("backup", store, tree.connect, "--keep", "1") == 3
        said = capsys.readouterr().out
        assert "snapshot 1 has 12 znodes, but this snapshot has 1" in said
        assert "file://" in said
    assert "Removed: 1 older snapshot, 2." in said
    assert "FAR LESS" not in said
    assert run("restore", store, tree.connect, "--snapshot", "1") == 0
    assert tree.content() == before
    assert run("backup", store, tree.connect, "--keep", "1") == 0
    tree.client.delete("/of-solr", recursive=True)
    capsys.readouterr()
    assert run("backup", store, tree.connect) == 3
    assert "snapshot 4 has 12 znodes, but this snapshot has 1." in capsys.readouterr().out


def test_snapshot_with_unreadable_znode_is_never_complete(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.fill()
    assert run("backup", store, tree.connect, "--keep", "1") == 0
    tree.client.create("/shut", b"x", acl=[make_digest_acl("anna", SECRET, all=True)])
    assert run("backup", store, tree.connect, "--keep", "1") == 3
    assert "this snapshot is incomplete" in capsys.readouterr().out
    assert run("diff", store, tree.connect) == 3
    assert f"? /shut ({reading.NO_ACCESS}" in capsys.readouterr().out
    assert run("restore", store, other.connect) == 3
    assert "NOT in the snapshot: /shut: " in capsys.readouterr().out
    assert run("restore", store, other.connect, "--snapshot", "1") == 0


def test_chroot_may_contain_znode_named_zookeeper(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.client.create("/zookeeper/mine", b"x", makepath=True)
    assert run("backup", store, tree.connect) == 0
    assert run("restore", store, other.connect) == 0
    assert other.client.get("/zookeeper/mine")[0] == b"x"
    assert run("restore", store, tree.server.connect, "--prefix", "/zookeeper/kafka", "--dry-run") == 2
    assert printed(capsys.readouterr().err) == ["znode-prefix-reserved"]


def test_what_is_there_otherwise_is_named(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.client.create("/a/b", b"x", makepath=True)
    tree.client.create("/users", b"x")
    assert run("backup", store, tree.connect) == 0
    other.client.create("/a", b"", ephemeral=True)
    other.client.create("/users", b"y", acl=[make_digest_acl("anna", SECRET, all=True)])
    assert run("restore", store, other.connect) == 3
    said = capsys.readouterr().out
    assert "/a: the ensemble has an ephemeral znode there." in said
    assert f"/users: {reading.NO_ACCESS}" in said
    assert "NOT restored: /a/b: its parent is ephemeral" in said


def test_repetitive_snapshot_can_be_read_back() -> None:
    znodes = {path: Znode(path, bytes(1_000_000), (Right(31, "world", "anyone"),), 0) for path in PATHS}
    packed = snapshots.encode(
        snapshots.ZnodeSnapshot(number=1, created=1, connect="here:2181", cluster=None, zxid=1, znodes=znodes)
    )
    best = zstandard.compress(zstandard.decompress(packed))
    assert len(best) * 1000 < 100_000_000  # more than a reader unpacks
    assert snapshots.decode(packed).znodes == znodes


PATHS = ("/", *(f"/{number:03}" for number in range(110)))
HEAD = {
    "format": 1, "number": 1, "created": 1, "connect": "here:2181", "cluster": None, "zxid": 1,
    "ephemeral": [], "left_out": [], "counters": [], "moving": [],
}  # fmt: skip
ROOT = {"path": "/", "data": None, "acl": [[31, "world", "anyone"]], "version": 0}
DEEP = "[" * 200_000


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        (HEAD, [ROOT, {**ROOT, "path": "/a/../b"}]),
        (HEAD, [ROOT, {**ROOT, "path": "/a/b"}]),
        (HEAD, [ROOT, ROOT]),
        (HEAD, []),
        (HEAD, [ROOT, {**ROOT, "path": "/a\nNOT restored: fake"}]),
        (HEAD, [ROOT, {**ROOT, "path": "/\ud800"}]),
        (HEAD, [{**ROOT, "acl": [[2**70, "world", "anyone"]]}]),
        (HEAD, [{**ROOT, "acl": [[float("inf"), "world", "anyone"]]}]),
        (HEAD, [{**ROOT, "version": "1"}]),
        ({**HEAD, "created": 10**30}, [ROOT]),
        ({**HEAD, "created": "x"}, [ROOT]),
        ({**HEAD, "ephemeral": 5}, [ROOT]),
        ({**HEAD, "cluster": "\x1b[31mX"}, [ROOT]),
        ({**HEAD, "connect": "a\nb"}, [ROOT]),
        (5, [ROOT]),
        (DEEP, [ROOT]),
        (HEAD, [DEEP]),
    ],
    ids=map(str, range(17)),
)
def test_a_planted_snapshot_is_damage(
    tree: Tree, store: str, capsys: pytest.CaptureFixture[str], head: object, lines: list[object]
) -> None:
    assert run("backup", store, tree.connect) == 0
    texts = [each if isinstance(each, str) else json.dumps(each) for each in (head, *lines)]
    whole = "".join(f"{each}\n" for each in texts).encode()
    whole += json.dumps({"sha256": hashlib.sha256(whole).hexdigest()}).encode() + b"\n"
    [file] = Path(store.removeprefix("file://"), "znodes").iterdir()
    file.write_bytes(zstandard.compress(whole))
    assert run("restore", store, tree.connect) == 1
    assert " is damaged (" in capsys.readouterr().err
    assert main(["zookeeper", "snapshots", "--store", store]) == 1


def test_a_planted_number_is_refused(tree: Tree, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("backup", store, tree.connect) == 0
    [file] = Path(store.removeprefix("file://"), "znodes").iterdir()
    file.rename(file.with_name("9" * 20 + ".jsonl.zst"))
    assert run("backup", store, tree.connect) == 1
    assert printed(capsys.readouterr().err) == ["snapshot-forged"]


@pytest.mark.parametrize("identity", [b"", b"[1]", b'{"id":null}', b'{"id":"\\ud800"}', b"[" * 200_000])
def test_an_odd_cluster_id_is_none(tree: Tree, store: str, identity: bytes) -> None:
    tree.client.create("/cluster/id", identity, makepath=True)
    assert run("backup", store, tree.connect) == 0


@pytest.mark.parametrize("what", ["backup", "restore", "diff"])
def test_a_report_can_t_overwrite_the_store(tree: Tree, store: str, what: str) -> None:
    assert run("backup", store, tree.connect) == 0
    [file] = Path(store.removeprefix("file://"), "znodes").iterdir()
    assert run(what, store, tree.connect, "--report", str(file)) == 2
    assert main(["zookeeper", "snapshots", "--store", store]) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--connect", "nobody.invalid:2181"), "cannot resolve"),
        (("--connect", "here:1:2"), "is not an ensemble; write HOST:PORT"),
        (("--connect", "localhost:1/a/../b"), "is not the path of a znode"),
    ],
)
def test_a_wrong_address_is_a_sentence(
    store: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert main(["zookeeper", "backup", "--store", store, *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not Path(store.removeprefix("file://")).exists()


def test_who_may_not_write_there_is_told(
    tree: Tree, other: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.fill()
    assert run("backup", store, tree.connect) == 0
    other.client.create("/locked", b"", acl=[make_digest_acl("anna", SECRET, all=True)])
    other.client.create("/shown", b"", acl=[make_digest_acl("anna", SECRET, all=True), ACL(1, ANYONE)])
    assert run("restore", store, other.connect, "--prefix", "/shown/kafka") == 1
    assert printed(capsys.readouterr().err) == ["zookeeper-access-refused"]
    assert run("restore", store, other.connect, "--prefix", "/locked/kafka") == 2
    assert printed(capsys.readouterr().err) == ["zookeeper-access-refused"]
    other.client.create("/short", b"", ephemeral=True)
    assert run("restore", store, other.connect, "--prefix", "/short/kafka") == 2
    assert printed(capsys.readouterr().err) == ["znode-parent-ephemeral"]


def test_restore_names_large_znode_and_restores_small_ones(
    tmp_path: Path, tree: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(5):
        tree.client.create(f"/small-{number}", b"x")
    tree.client.create("/large", bytes(300_000))
    assert run("backup", store, tree.connect) == 0
    (tmp_path / "narrow").mkdir()
    with zookeeper.running(tmp_path / "narrow", jvm=("-Djute.maxbuffer=200000",)) as narrow:
        assert run("restore", store, narrow.connect) == 3
        said = capsys.readouterr().out
        assert re.search(r"NOT restored: /large: .* 300,000 bytes", said)
        assert said.count("NOT restored") == 1
        assert run("diff", store, narrow.connect) == 3
        assert "1 missing, 0 changed" in capsys.readouterr().out


@pytest.mark.long
def test_a_server_that_freezes_is_a_sentence(
    tmp_path: Path, store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server").mkdir()
    with zookeeper.running(tmp_path / "server") as server:
        client = KazooClient(server.connect)
        client.start()
        client.ensure_path("/many")
        made = [client.create_async(f"/many/{number}", b"x") for number in range(1000)]
        assert len([each.get() for each in made]) == 1000
        client.stop()
        client.close()
        frozen: list[AbstractContextManager[None]] = []

        def freeze(*arguments: object) -> object:
            frozen.append(server.process.silent())
            frozen[0].__enter__()
            return look(*arguments)  # type: ignore[arg-type]

        look = reading._look
        monkeypatch.setattr(reading, "_look", freeze)
        assert run("backup", store, server.connect) == 1
        assert_printed(capsys.readouterr().err, "zookeeper-unreachable", "stopped answering")
        frozen[0].__exit__(None, None, None)


def _ensemble(connect: str) -> Ensemble:
    return Ensemble(connect, ClientConfig())
