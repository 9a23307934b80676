"""What ZooKeeper has of a cluster that is led from there to KRaft (KIP-866)."""

from dataclasses import dataclass

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Delete

from aqueduct.recovery.zookeeper.brokers import kept
from aqueduct.recovery.zookeeper.client import ZooKeeperSession

CONTROLLER = "/controller"  # who controls the brokers; a broker's ends with its session, a quorum's stays
MIGRATION = "/migration"  # how far the quorum has written what it has there, too
ANY_VERSION = -1


@dataclass(frozen=True, kw_only=True)
class Migration:
    begun: bool  # a quorum has taken the brokers' control once
    copied: bool  # the quorum has all that is in ZooKeeper, and writes what changes there, too
    controller: int | None  # the id of who controls the brokers, if anybody does
    of_quorum: bool  # whether that is one of the quorum


def read(session: ZooKeeperSession) -> Migration:
    migration, controller = (kept(session, path) for path in (MIGRATION, CONTROLLER))
    return Migration(
        begun=bool(migration),
        # KRaftMigrationDriver takes it for done by the same sign (initialZkMigrationComplete).
        copied=int(migration.get("kraft_metadata_offset", -1)) > 0,
        controller=controller.get("brokerid"),
        of_quorum=int(controller.get("kraftControllerEpoch", -1)) >= 0,
    )


def forget(session: ZooKeeperSession) -> list[str]:
    """Remove what a quorum left that is gone, so that a broker takes the control; return which znodes."""
    state = read(session)
    gone = [CONTROLLER] if state.of_quorum else []
    gone += [MIGRATION] if state.begun else []
    for path in gone:
        session.ask(Delete(session.at(path), ANY_VERSION), but=(NoNodeError,))
    return gone
