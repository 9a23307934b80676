"""What a new quorum begins with: metadata that are older than the logs on brokers' disks, and fit them.
Pure.

The new log has one record more for each partition of which a disk has more than the metadata know, as a
controller would write it, and one for producers' ids.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from aqueduct.common.timestamps import text
from aqueduct.common.wording import count
from aqueduct.recovery.broker_ids.disk_logs import Folder
from aqueduct.recovery.broker_ids.log_comparison import PRODUCER_IDS, Corrected, Fit, fit
from aqueduct.recovery.broker_ids.log_comparison import sentences as of_fit
from aqueduct.recovery.quorum.metadata import Metadata
from aqueduct.recovery.quorum.records import partition_record, producer_ids_record

# What the old controllers had since is less: an old log that comes back follows, and does not lead.
EPOCHS = 1_000_000


@dataclass(frozen=True)
class QuorumPlan:
    metadata: Metadata
    fit: Fit

    def seed(self) -> Metadata:
        """Return what the controllers of the new quorum begin with; the same for one that has it already."""
        if is_seed(self.metadata):
            return self.metadata
        values = [producer_ids_record(self.metadata.image.next_producer_id + PRODUCER_IDS)]
        values += [self._record(corrected) for corrected in self.fit.corrected]
        return self.metadata.with_records(values, self.metadata.end_epoch + EPOCHS)

    def _record(self, corrected: Corrected) -> bytes:
        number = corrected.partition.partition
        state = self.metadata.image.topics[corrected.topic_id].partitions[number]
        begun = replace(
            state,
            in_sync=(corrected.leader,),
            # Brokers that come back are not believed to have all their logs (KIP-966): who led last leads.
            leader=corrected.leader,
            leader_epoch=corrected.leader_epoch,
            epoch=state.epoch + 1,
        )
        return partition_record(corrected.topic_id, number, begun)


def is_seed(metadata: Metadata) -> bool:
    """Tell whether a plan has made these metadata, and no controller has led with them yet."""
    return metadata.rise >= EPOCHS


def plan(metadata: Metadata, hosts: Mapping[str, Sequence[Folder]], lost: Collection[int] = ()) -> QuorumPlan:
    """Compare metadata with the logs on brokers' disks; Refused for folders of another cluster."""
    return QuorumPlan(metadata, fit(metadata.cluster, metadata.image.topics.values(), hosts, lost))


def sentences(quorum_plan: QuorumPlan) -> list[str]:
    """Say what comes back otherwise than it was."""
    metadata = quorum_plan.metadata
    topics = metadata.image.topics.values()
    partitions = sum(len(topic.partitions) for topic in topics)
    return [
        f"The metadata are those of node {metadata.node} at {text(metadata.time)}: "
        f"{count(len(topics), 'topic')} with {count(partitions, 'partition')}. What was changed later but "
        "topics can't be known: settings, ACLs, users, quotas.",
        *of_fit(
            quorum_plan.fit, "Brokers put them aside as <topic>-<partition>.<digits>-stray and keep them."
        ),
    ]
