"""The client of an ensemble: a session with one of its servers, and with another one when that is lost."""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat
from typing import Any

from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.protocol.serialization import Create, Exists, GetACL, Sync, int_struct, stat_struct
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

from aqueduct.common.wording import some
from aqueduct.errors import Failed, Refused
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.kafka.tls import tls_context
from aqueduct.recovery.zookeeper.connection import Connection, ServerUnusable
from aqueduct.recovery.zookeeper.znodes import Right, parent

CONNECT_SECONDS = 15  # until one of the servers has to give a session
AGAIN_SECONDS = 30  # until another one has to: an ensemble that lost its leader chooses one before
PAUSE_SECONDS = 0.5
# Requests under way, and bytes of their answers: a server has these in memory, beside its whole tree.
AT_ONCE, AT_ONCE_BYTES = 500, 4 << 20
LOST = 3  # connections one after another without an answer


@dataclass(frozen=True)
class Ensemble:
    """An ensemble, as Kafka's `zookeeper.connect` names it, and how a client reaches it."""

    connect: str  # host:port,host:port/chroot
    client_config: ClientConfig

    @property
    def servers(self) -> list[str]:
        return self.connect.partition("/")[0].split(",")

    @property
    def chroot(self) -> str:
        """The znode that is `/` to this client; empty: the ensemble's own."""
        _, slash, path = self.connect.partition("/")
        return slash + path

    def __str__(self) -> str:
        return f"ZooKeeper at {self.connect}"


class EnsembleAway(Failed):
    """An ensemble that answered, and does not any more."""

    id = "zookeeper-unreachable"


@contextmanager
def connected(ensemble: Ensemble) -> Iterator["ZooKeeperSession"]:
    """Yield a session; Refused if there is no ensemble that serves, or no such chroot."""
    session = ZooKeeperSession(ensemble)
    try:
        if ensemble.chroot and not session.has("/"):
            raise Refused(
                "zookeeper-chroot-missing",
                f"{ensemble} has no znode {ensemble.chroot}: see zookeeper.connect of the brokers, or, for a "
                "restore that makes it, give it as --prefix.",
            )
        yield session
    finally:
        session.close()


class ZooKeeperSession:
    """A session, of which nothing in the ensemble depends: it has no ephemeral znodes, and watches none.

    Many requests are under way at once. No server answers that is behind one that has answered before.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        """Refused if no server gives one."""
        self.ensemble = ensemble
        self.zxid = 0  # the last change that the server had when it answered
        self._servers = deque(ensemble.servers)
        self._context = tls_context(ensemble.client_config) if ensemble.client_config.tls else None
        try:
            self._connection = self._connect(CONNECT_SECONDS)
        except ServerUnusable as error:
            raise Refused("zookeeper-unreachable", f"{ensemble} {error}.") from None

    def close(self) -> None:
        self._connection.close()

    def at(self, path: str) -> str:
        """Return where a path of the chroot is in the ensemble."""
        chroot = self.ensemble.chroot
        return chroot + path if path != "/" else chroot or "/"

    def answers(
        self, requests: Iterable[Any], *, sizes: Iterable[int] = repeat(0), once: bool = False
    ) -> Iterator[Any]:
        """Yield the answer to each request, in their order; where it was refused, the error.

        `sizes`: bytes of large answers, all of which the server has in memory until they are read. What has
        no answer when the connection is lost is asked again; with `once` it may have been done, and its
        answer is ConnectionLoss. EnsembleAway if no other server serves.
        """
        todo: Iterator[tuple[Any, int]] = zip(requests, sizes, strict=False)
        asked: deque[tuple[Any, int]] = deque()
        waiting = lost = 0
        try:
            while True:
                more = []
                while (
                    len(asked) < AT_ONCE and waiting < AT_ONCE_BYTES and (sized_request := next(todo, None))
                ):
                    more.append(sized_request[0])
                    asked.append(sized_request)
                    waiting += sized_request[1]
                if not asked:
                    return
                try:
                    self._connection.send(more)
                    # The server is left some to answer, while these are read.
                    left = 0.5 if more else 0
                    while asked and (len(asked) > AT_ONCE * left or waiting > AT_ONCE_BYTES * left):
                        answer = self._connection.answer(asked[0][0])
                        waiting -= asked.popleft()[1]
                        lost = 0
                        self.zxid = self._connection.zxid
                        yield answer
                except OSError as error:
                    lost += 1
                    self._go_on(error, lost)
                    unanswered, waiting = [*asked], 0
                    asked.clear()
                    if once:
                        yield from (ConnectionLoss() for _ in unanswered)
                    else:
                        todo = chain(unanswered, todo)
        finally:
            if asked:  # answers are to come that nobody waits for
                self._connection.drop()

    def ask(self, request: Any, but: tuple[type[KazooException], ...] = ()) -> Any:
        """Return the answer to one request; Failed if it is refused, `but` for these errors."""
        [answer] = self.answers([request])
        if isinstance(answer, but):
            return answer
        if isinstance(answer, NoAuthError):
            raise Failed(
                "zookeeper-access-refused",
                f"An ACL of {self.ensemble} does not let this client do that: use a broker's certificate.",
            )
        if isinstance(answer, KazooException):
            raise Failed(
                "zookeeper-request-failed",
                f"{self.ensemble} refused: {str(answer) or type(answer).__name__}.",
            )
        return answer

    def has(self, path: str) -> bool:
        [answer] = self.answers([Exists(self.at(path), None)])
        if isinstance(answer, NoAuthError):
            raise Refused(
                "zookeeper-access-refused",
                f"{self.ensemble} lets this client not see {self.at(path)}: use a broker's certificate.",
            )
        return not isinstance(answer, NoNodeError)

    def make(self, path: str) -> None:
        """Make a znode that anybody may use, and those above it, if they are not there.

        Refused below an ephemeral one.
        """
        if not self.has(path):
            self.make(parent(path))
            but = (NodeExistsError, NoChildrenForEphemeralsError)
            answer = self.ask(Create(self.at(path), b"", OPEN_ACL_UNSAFE, 0), but=but)
            if isinstance(answer, NoChildrenForEphemeralsError):
                above = self.at(parent(path))
                raise Refused(
                    "znode-parent-ephemeral",
                    f"{self.ensemble} can't have {self.at(path)}: {above} belongs to a session (ephemeral), "
                    "and nothing may be below it.",
                )

    def now(self) -> int:
        """Return the ensemble's last change, after the server that is asked has come up to it."""
        self.ask(Sync(self.at("/")))
        self.ask(Exists(self.at("/"), None))
        return self.zxid

    def _connect(self, seconds: float) -> Connection:
        """ServerUnusable, of all servers, if none gives a session in that time."""
        deadline = time.monotonic() + seconds
        while True:
            troubles: dict[str, list[str]] = {}
            passing = False
            for server in [*self._servers]:
                try:
                    return Connection(server, self._context, self.zxid)
                except ServerUnusable as error:
                    self._servers.rotate(-1)
                    troubles.setdefault(str(error), []).append(server)
                    passing |= error.passing
            if not passing or time.monotonic() > deadline:
                raise ServerUnusable(_all(troubles))
            time.sleep(PAUSE_SECONDS)

    def _go_on(self, error: OSError, lost: int) -> None:
        """Take a new connection, to another server if there is one; EnsembleAway without."""
        self._connection.drop()
        reason = str(error)
        if lost < LOST:
            self._servers.rotate(-1)
            try:
                self._connection = self._connect(AGAIN_SECONDS)
                return
            except ServerUnusable as trouble:
                reason = f"it {trouble}"
        raise EnsembleAway(
            f"{self.ensemble} answers no more ({reason}): see its servers' logs, and run this again."
        )


def _all(troubles: Mapping[str, Sequence[str]]) -> str:
    """Say what is wrong with servers, of one or several kinds."""
    if len(troubles) == 1:
        return next(iter(troubles))
    phrases = (f"{some(servers)} {trouble}" for trouble, servers in troubles.items())
    return f"gives no session: {'; '.join(phrases)}"


class GetRights(GetACL):  # type: ignore[misc]
    """The request for an ACL, whose letters may be any, and for a znode's state at the same moment."""

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> tuple[tuple[Right, ...] | None, ZnodeStat]:
        """Return the ACL, None if it has half a letter, and the state."""
        end = len(answer) - stat_struct.size
        try:
            rights = _rights(answer[offset:end])
        except UnicodeDecodeError:
            rights = None
        return rights, ZnodeStat._make(stat_struct.unpack_from(answer, end))


@lru_cache(maxsize=10_000)  # most znodes have the same
def _rights(packed: bytes) -> tuple[Right, ...]:
    [many] = int_struct.unpack_from(packed)
    offset = int_struct.size
    rights = []
    for _ in range(max(0, many)):
        [permissions] = int_struct.unpack_from(packed, offset)
        scheme, offset = _text(packed, offset + int_struct.size)
        identity, offset = _text(packed, offset)
        rights.append(Right(permissions, scheme, identity))
    return tuple(rights)


def _text(packed: bytes, offset: int) -> tuple[str, int]:
    """Return a text, and where it ends.

    Java writes a letter beyond the first 65,536 as its two halves in UTF-16, in three bytes each.
    """
    [size] = int_struct.unpack_from(packed, offset)
    offset += int_struct.size
    end = offset + max(0, size)
    halves = packed[offset:end].decode("utf-8", "surrogatepass")
    return halves.encode("utf-16", "surrogatepass").decode("utf-16"), end


def acl_of(rights: tuple[Right, ...]) -> list[ACL]:
    """Return an ACL as kazoo has it."""
    return [ACL(right.permissions, Id(right.scheme, right.id)) for right in rights]
