"""The state in ZooKeeper of a migration to KRaft (KIP-866)."""

from dataclasses import dataclass

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Delete

from aqueduct.recovery.zookeeper.brokers import znode_content
from aqueduct.recovery.zookeeper.client import ZooKeeperSession

CONTROLLER = "/controller"  # the active controller; a broker's znode ends with its session, a quorum's stays
MIGRATION = "/migration"  # the progress of the quorum's writes to ZooKeeper
ANY_VERSION = -1


@dataclass(frozen=True, kw_only=True)
class Migration:
    begun: bool  # a quorum was the controller of the brokers once
    copied: bool  # the quorum has copied all of ZooKeeper, and writes changes to both
    controller: int | None  # the id of the active controller; None: there is none
    of_quorum: bool  # whether this controller belongs to the quorum


def read(session: ZooKeeperSession) -> Migration:
    migration, controller = (znode_content(session, path) for path in (MIGRATION, CONTROLLER))
    return Migration(
        begun=bool(migration),
        # KRaftMigrationDriver uses the same condition (initialZkMigrationComplete).
        copied=int(migration.get("kraft_metadata_offset", -1)) > 0,
        controller=controller.get("brokerid"),
        of_quorum=int(controller.get("kraftControllerEpoch", -1)) >= 0,
    )


def forget(session: ZooKeeperSession) -> list[str]:
    """Remove the znodes of a removed quorum, so that a broker becomes controller. Return their paths."""
    state = read(session)
    gone = [CONTROLLER] if state.of_quorum else []
    gone += [MIGRATION] if state.begun else []
    for path in gone:
        session.ask(Delete(session.at(path), ANY_VERSION), but=(NoNodeError,))
    return gone
