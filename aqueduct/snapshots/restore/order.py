"""The request for a restore run."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aqueduct.kafka.acls import Acl
from aqueduct.kafka.client_config import End
from aqueduct.snapshots.backup.selection import GroupSelection
from aqueduct.snapshots.restore.request import Request
from aqueduct.store.signing import EVERYBODY, Trust

if TYPE_CHECKING:
    from aqueduct.common.keys import ReceiverKey


@dataclass(frozen=True)
class FollowingMirror:
    """A flow that reads the restored cluster: its name, and the cluster to which it writes."""

    name: str
    end: End


@dataclass(frozen=True)
class TaskClient:
    """How tasks connect to the target, possibly with a key with fewer rights than the driver's."""

    end: End
    principal: str | None = None  # without `User:`; the restore grants it ACLs. None: it already has them


@dataclass(frozen=True, kw_only=True)
class RestoreOrder:
    """The request for a restore run: a store, a cluster, and what is restored."""

    end: End  # of the driver: topics, settings, groups, ACLs
    store: str  # URL
    request: Request
    snapshot: int | None = None  # None: the newest, or the one of the restore that resumes
    at_least: int | None = None  # the oldest snapshot number that is accepted
    trust: Trust = EVERYBODY  # the accepted signers of snapshots
    private_keys: "tuple[ReceiverKey, ...]" = ()  # that decrypt the backup
    restore_id: str | None = None
    groups: GroupSelection | None = field(default_factory=GroupSelection)  # None: none
    settings: bool = True
    acls: bool = False
    acls_within: frozenset[Acl] | None = None  # the ACLs that may be granted; None: all
    acls_of: frozenset[str] = frozenset()  # principals, without `User:`, whose ACLs are all granted
    append: bool = False
    dry_run: bool = False
    skip_verify: bool = False
    release_retention: bool = False
    mirrors: tuple[FollowingMirror, ...] = ()  # stopped mirrors
    links: tuple[str, ...] = ()  # groups of stopped one-way links
    task_client: TaskClient | None = None  # None: tasks connect like the driver

    @property
    def tasks_end(self) -> End:
        """Return how tasks connect to the target."""
        return self.task_client.end if self.task_client else self.end

    @property
    def task_principal(self) -> str | None:
        """Return the principal to which the restore grants the ACLs of tasks; None: it grants none."""
        return self.task_client.principal if self.task_client else None
