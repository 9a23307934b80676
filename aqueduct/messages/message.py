"""A message that a user can get, by its identifier."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+){1,4}")


class Area(Enum):
    """The part of Aqueduct that a message belongs to; the value is the part's title and its verbs."""

    COMMAND_LINE = "Command line", "all verbs"
    CLUSTER = "Kafka cluster", "all verbs that connect to a Kafka cluster"
    STORE = "Backup store", "all verbs that read or write a backup store"
    BACKUP = "Backup", "`backup`, `import`"
    SPARK = "Spark", "all verbs that run tasks with Spark"
    RESTORE = "Restore", "`restore`, `drill`"
    DRILL = "Drill", "`drill`"
    EXPORT = "Export", "`export`"
    IMPORT = "Import", "`import`"
    GROUPS = "Consumer and share groups", "`backup`, `restore`, `groups`"
    TRANSACTIONS = "Hanging transactions", "`transactions`, `doctor cluster`"
    MIRROR = "Mirrors", "`mirror`, `replicate`"
    LINK = "One-way links", "`diode`, `dedup`"
    CONNECT = "Kafka Connect", "`doctor connect`"
    DEAD_LETTERS = "Dead-letter records", "`dlq`"
    LANDING = "Landing", "`land`"
    RECONCILE = "Comparisons", "`reconcile`, `drill`"
    FILE_BACKUP = "File backups", "`files`"
    QUORUM = "Lost quorums", "`quorum`"
    ZOOKEEPER = "ZooKeeper ensembles", "`zookeeper`, `playbooks/zookeeper.yml`"
    DATA_FOLDERS = "Data folders of Kafka nodes", "`repair`, `quorum`, `zookeeper`"
    BROKER_IDS = "Changed broker ids", "`repair`"
    CERTIFICATES = "Provided certificates", "`playbooks/check.yml` and all other playbooks"
    INVENTORY = "Inventory", "all playbooks"
    CONTROL_NODE = "Control node", "`playbooks/hosts.yml`, `playbooks/authority.yml`"
    STATUS = "State of the estate", "`status`, `playbooks/status.yml`"

    @property
    def title(self) -> str:
        return self.value[0]

    @property
    def verbs(self) -> str:
        return self.value[1]


@dataclass(frozen=True, kw_only=True)
class DeclaredMessage:
    """The declaration of an error, a warning, or a reason for a skipped item.

    A finding of a check has the same form. The sentences that a user reads are where the message occurs: they
    identify the objects. ValueError unless `id` is 2 to 5 words in kebab-case, and `meaning` and `fix` are
    sentences.
    """

    id: str
    area: Area
    meaning: str
    fix: str

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"{self.id!r} is not an identifier: use 2 to 5 lower-case words, joined by '-'")
        for sentence in (self.meaning, self.fix):
            if not re.fullmatch(r"[A-Z`*].*\.", sentence):
                raise ValueError(f"{self.id}: {sentence!r} is not a sentence")


def by_id(declared: Iterable[DeclaredMessage]) -> Mapping[str, DeclaredMessage]:
    """Return messages by their identifiers; ValueError if two have the same one."""
    messages: dict[str, DeclaredMessage] = {}
    for message in declared:
        if message.id in messages:
            raise ValueError(f"{message.id} is declared twice")
        messages[message.id] = message
    return messages
