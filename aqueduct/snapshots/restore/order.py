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
    """A flow that reads the restored cluster, by its name, and the cluster where it arrives."""

    name: str
    end: End


@dataclass(frozen=True)
class TaskClient:
    """How tasks reach the target, with a key that may do less than the driver's."""

    end: End
    principal: str | None = None  # without `User:`; the restore grants it what tasks need. None: it has that


@dataclass(frozen=True, kw_only=True)
class RestoreOrder:
    """A store, a cluster, and what of the one goes to the other."""

    end: End  # of the driver: topics, settings, groups, ACLs
    store: str  # URL
    request: Request
    snapshot: int | None = None  # None: the newest, or that of the restore that resumes
    at_least: int | None = None  # an older snapshot is not to be restored
    trust: Trust = EVERYBODY  # whose snapshots may be
    private_keys: "tuple[ReceiverKey, ...]" = ()  # that open what is encrypted
    restore_id: str | None = None
    groups: GroupSelection | None = field(default_factory=GroupSelection)  # None: none
    settings: bool = True
    acls: bool = False
    acls_within: frozenset[Acl] | None = None  # what may be granted; None: whatever the backup has
    acls_of: frozenset[str] = frozenset()  # principals, without `User:`, whose rights come whatever they are
    append: bool = False
    dry_run: bool = False
    skip_verify: bool = False
    release_retention: bool = False
    mirrors: tuple[FollowingMirror, ...] = ()  # they stand still
    links: tuple[str, ...] = ()  # groups of one-way links, of which the same is true
    task_client: TaskClient | None = None  # None: tasks connect as the driver does

    @property
    def tasks_end(self) -> End:
        """Return how tasks reach the target."""
        return self.task_client.end if self.task_client else self.end

    @property
    def task_principal(self) -> str | None:
        """Return the principal to which the restore grants what tasks need; None: it grants nothing."""
        return self.task_client.principal if self.task_client else None
