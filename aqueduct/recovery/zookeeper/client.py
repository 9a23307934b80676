"""The client of an ensemble. If its session with a server is lost, it connects to another server."""

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

CONNECT_SECONDS = 15  # for the first session with one of the servers
AGAIN_SECONDS = 30  # for a new session: an ensemble without a leader elects one in this time
PAUSE_SECONDS = 0.5
# Requests in flight, and bytes of their answers: a server has these in memory, beside all znodes.
AT_ONCE, AT_ONCE_BYTES = 500, 4 << 20
LOST = 3  # connections in a row without an answer


@dataclass(frozen=True)
class Ensemble:
    """An ensemble as in Kafka's `zookeeper.connect`, and the settings of its clients."""

    connect: str  # host:port,host:port/chroot
    client_config: ClientConfig

    @property
    def servers(self) -> list[str]:
        return self.connect.partition("/")[0].split(",")

    @property
    def chroot(self) -> str:
        """The root znode of this client; empty: the root of the ensemble."""
        _, slash, path = self.connect.partition("/")
        return slash + path

    def __str__(self) -> str:
        return f"ZooKeeper at {self.connect}"


class EnsembleAway(Failed):
    """The error of an ensemble that stopped answering."""

    id = "zookeeper-unreachable"


@contextmanager
def connected(ensemble: Ensemble) -> Iterator["ZooKeeperSession"]:
    """Yield a session. Refused if no server gives one, or the chroot does not exist."""
    session = ZooKeeperSession(ensemble)
    try:
        if ensemble.chroot and not session.has("/"):
            raise Refused(
                "zookeeper-chroot-missing",
                f"{ensemble} has no znode {ensemble.chroot}. Pass the chroot from zookeeper.connect of the "
                "brokers. For a restore that creates the chroot, pass it with --prefix.",
            )
        yield session
    finally:
        session.close()


class ZooKeeperSession:
    """A session without ephemeral znodes and watches. It sends many requests at once.

    Its server has all changes from before the session. After a reconnect, only a server answers that has all
    changes seen before.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        """Connect to a server. Refused if none gives a session."""
        self.ensemble = ensemble
        self.zxid = 0  # the last change that the server had when it answered
        self._servers = deque(ensemble.servers)
        self._context = tls_context(ensemble.client_config) if ensemble.client_config.tls else None
        try:
            self._connection = self._connect(CONNECT_SECONDS)
        except ServerUnusable as error:
            raise Refused("zookeeper-unreachable", f"{ensemble} {error}") from None
        self._sync()

    def close(self) -> None:
        self._connection.close()

    def at(self, path: str) -> str:
        """Return the path in the ensemble of a path below the chroot."""
        chroot = self.ensemble.chroot
        return chroot + path if path != "/" else chroot or "/"

    def answers(
        self, requests: Iterable[Any], *, sizes: Iterable[int] = repeat(0), once: bool = False
    ) -> Iterator[Any]:
        """Yield the answers to requests, in their order; for a rejected request, its error.

        `sizes`: bytes of large answers, which the server has in memory until they are read. If a connection
        is lost, requests without an answer are repeated. With `once` they are not: they may have been
        executed, and their answer is ConnectionLoss. EnsembleAway if no other server gives a session.
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
                    # The server answers the other half while these are read.
                    left = 0.5 if more else 0
                    while asked and (len(asked) > AT_ONCE * left or waiting > AT_ONCE_BYTES * left):
                        answer = self._connection.answer(asked[0][0])
                        waiting -= asked.popleft()[1]
                        lost = 0
                        self.zxid = self._connection.zxid
                        yield answer
                except OSError as error:
                    lost += 1
                    self._reconnect(error, lost)
                    unanswered, waiting = [*asked], 0
                    asked.clear()
                    if once:
                        yield from (ConnectionLoss() for _ in unanswered)
                    else:
                        todo = chain(unanswered, todo)
        finally:
            if asked:  # the caller does not read the other answers
                self._connection.drop()

    def ask(self, request: Any, but: tuple[type[KazooException], ...] = ()) -> Any:
        """Return the answer to one request, or one of the errors in `but`. Failed for another error."""
        [answer] = self.answers([request])
        if isinstance(answer, but):
            return answer
        if isinstance(answer, NoAuthError):
            raise Failed(
                "zookeeper-access-refused",
                f"An ACL of {self.ensemble} denies this request. Use the certificate of a broker.",
            )
        if isinstance(answer, KazooException):
            raise Failed(
                "zookeeper-request-failed",
                f"{self.ensemble} rejected a request: {str(answer) or type(answer).__name__}. Check the logs "
                "of its servers.",
            )
        return answer

    def has(self, path: str) -> bool:
        [answer] = self.answers([Exists(self.at(path), None)])
        if isinstance(answer, NoAuthError):
            raise Refused(
                "zookeeper-access-refused",
                f"An ACL of {self.ensemble} does not let this client see {self.at(path)}. Use the "
                "certificate of a broker.",
            )
        return not isinstance(answer, NoNodeError)

    def create(self, path: str) -> None:
        """Create a znode with an open ACL, and its parents, unless they exist.

        Refused below an ephemeral znode.
        """
        if not self.has(path):
            self.create(parent(path))
            but = (NodeExistsError, NoChildrenForEphemeralsError)
            answer = self.ask(Create(self.at(path), b"", OPEN_ACL_UNSAFE, 0), but=but)
            if isinstance(answer, NoChildrenForEphemeralsError):
                above = self.at(parent(path))
                raise Refused(
                    "znode-parent-ephemeral",
                    f"Cannot create {self.at(path)} in {self.ensemble}, because {above} is ephemeral: it "
                    "belongs to a session and cannot have children. Pass another path, or stop the client of "
                    "the session.",
                )

    def now(self) -> int:
        """Return the zxid of the ensemble's last change, after the connected server has it."""
        self._sync()
        self.ask(Exists(self.at("/"), None))
        return self.zxid

    def _sync(self) -> None:
        """Wait until the connected server has the ensemble's last change. A follower may lag behind."""
        self.ask(Sync(self.at("/")))

    def _connect(self, seconds: float) -> Connection:
        """Connect to one of the servers. ServerUnusable, about all servers, after `seconds`."""
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

    def _reconnect(self, error: OSError, lost: int) -> None:
        """Connect again, if possible to another server. EnsembleAway if none gives a session."""
        self._connection.drop()
        reason = str(error)
        if lost < LOST:
            self._servers.rotate(-1)
            try:
                self._connection = self._connect(AGAIN_SECONDS)
                return
            except ServerUnusable as trouble:
                reason = f"it {str(trouble).rstrip('.')}"
        raise EnsembleAway(
            f"{self.ensemble} stopped answering ({reason}). Check the logs of its servers, and run the "
            "command again."
        )


def _all(troubles: Mapping[str, Sequence[str]]) -> str:
    """Describe what is wrong with the servers, and what to do."""
    if len(troubles) == 1:
        return next(iter(troubles))
    phrases = (f"{some(servers)} {trouble}" for trouble, servers in troubles.items())
    return f"gives no session. {' '.join(phrases)}"


class GetRights(GetACL):  # type: ignore[misc]
    """The request for a znode's ACL and its state. The ACL may have any characters."""

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> tuple[tuple[Right, ...] | None, ZnodeStat]:
        """Return the ACL and the state. The ACL is None if its text is not valid UTF-16."""
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
    """Return a text and its end.

    Java writes a character beyond the first 65,536 as two surrogates, in three bytes each.
    """
    [size] = int_struct.unpack_from(packed, offset)
    offset += int_struct.size
    end = offset + max(0, size)
    halves = packed[offset:end].decode("utf-8", "surrogatepass")
    return halves.encode("utf-16", "surrogatepass").decode("utf-16"), end


def acl_of(rights: tuple[Right, ...]) -> list[ACL]:
    """Return an ACL in the form of kazoo."""
    return [ACL(right.permissions, Id(right.scheme, right.id)) for right in rights]
