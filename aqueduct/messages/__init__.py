"""All messages that have an identifier. `docs/messages.md` is generated from them.

An identifier never changes its meaning, and a removed one is not used again: scripts depend on them.
"""

from collections.abc import Mapping
from itertools import chain

from aqueduct.messages.backup import BACKUP
from aqueduct.messages.broker_ids import BROKER_IDS
from aqueduct.messages.certificates import CERTIFICATES
from aqueduct.messages.cluster import CLUSTER
from aqueduct.messages.command_line import COMMAND_LINE
from aqueduct.messages.connect import CONNECT
from aqueduct.messages.control_node import CONTROL_NODE
from aqueduct.messages.data_folders import DATA_FOLDERS
from aqueduct.messages.dead_letters import DEAD_LETTERS
from aqueduct.messages.declared_services import DECLARED_SERVICES
from aqueduct.messages.drill import DRILL
from aqueduct.messages.exports import EXPORT
from aqueduct.messages.file_backup import FILE_BACKUP
from aqueduct.messages.groups import GROUPS
from aqueduct.messages.imports import IMPORT
from aqueduct.messages.inventory import INVENTORY
from aqueduct.messages.landing import LANDING
from aqueduct.messages.link import LINK
from aqueduct.messages.message import DeclaredMessage, by_id
from aqueduct.messages.mirror import MIRROR
from aqueduct.messages.quorum import QUORUM
from aqueduct.messages.reconcile import RECONCILE
from aqueduct.messages.restore import RESTORE
from aqueduct.messages.spark import SPARK
from aqueduct.messages.status import STATUS
from aqueduct.messages.store import STORE
from aqueduct.messages.transactions import TRANSACTIONS
from aqueduct.messages.zookeeper import ZOOKEEPER

MESSAGES: Mapping[str, DeclaredMessage] = by_id(
    chain(
        COMMAND_LINE,
        CLUSTER,
        STORE,
        BACKUP,
        SPARK,
        RESTORE,
        DRILL,
        EXPORT,
        IMPORT,
        GROUPS,
        TRANSACTIONS,
        MIRROR,
        LINK,
        CONNECT,
        DEAD_LETTERS,
        LANDING,
        RECONCILE,
        FILE_BACKUP,
        QUORUM,
        ZOOKEEPER,
        DATA_FOLDERS,
        BROKER_IDS,
        CERTIFICATES,
        INVENTORY,
        DECLARED_SERVICES,
        CONTROL_NODE,
        STATUS,
    )
)
