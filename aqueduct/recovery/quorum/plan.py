"""The metadata with which a new quorum starts: restored, and corrected for newer logs on disks. Pure.

For each partition with a longer log than the metadata assume, the new metadata log gets one record, as a
controller would write it, and one record for producer ids.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from aqueduct.common.timestamps import text
from aqueduct.common.wording import count
from aqueduct.recovery.broker_ids.disk_logs import Folder
from aqueduct.recovery.broker_ids.log_comparison import PRODUCER_IDS, Corrected, LogComparison, compare_logs
from aqueduct.recovery.broker_ids.log_comparison import sentences as comparison_sentences
from aqueduct.recovery.quorum.metadata import Metadata
from aqueduct.recovery.quorum.records import partition_record, producer_ids_record

# Old controllers had fewer elections since: a controller that starts with an old log becomes a follower.
EPOCHS = 1_000_000


@dataclass(frozen=True)
class QuorumPlan:
    metadata: Metadata
    comparison: LogComparison

    def seed(self) -> Metadata:
        """Return the metadata with which the new controllers start; unchanged if they were planned before."""
        if is_seed(self.metadata):
            return self.metadata
        values = [producer_ids_record(self.metadata.image.next_producer_id + PRODUCER_IDS)]
        values += [self._record(corrected) for corrected in self.comparison.corrected]
        return self.metadata.with_records(values, self.metadata.end_epoch + EPOCHS)

    def _record(self, corrected: Corrected) -> bytes:
        number = corrected.partition.partition
        state = self.metadata.image.topics[corrected.topic_id].partitions[number]
        begun = replace(
            state,
            in_sync=(corrected.leader,),
            # Restarted brokers may lack parts of their logs (KIP-966), so only the leader is in sync.
            leader=corrected.leader,
            leader_epoch=corrected.leader_epoch,
            epoch=state.epoch + 1,
        )
        return partition_record(corrected.topic_id, number, begun)


def is_seed(metadata: Metadata) -> bool:
    """Return whether these metadata come from a plan, and no controller became leader with them yet."""
    return metadata.rise >= EPOCHS


def plan(metadata: Metadata, hosts: Mapping[str, Sequence[Folder]], lost: Collection[int] = ()) -> QuorumPlan:
    """Compare metadata with the logs on brokers' disks; Refused for folders of another cluster."""
    return QuorumPlan(metadata, compare_logs(metadata.cluster, metadata.image.topics.values(), hosts, lost))


def sentences(quorum_plan: QuorumPlan) -> list[str]:
    """Return the differences between the restored cluster and the lost one, as sentences."""
    metadata = quorum_plan.metadata
    topics = metadata.image.topics.values()
    partitions = sum(len(topic.partitions) for topic in topics)
    return [
        f"The metadata are from node {metadata.node} at {text(metadata.time)}: "
        f"{count(len(topics), 'topic')} with {count(partitions, 'partition')}. Later changes of settings, "
        "ACLs, users and quotas are lost. The lines below list differences of topics and partitions.",
        *comparison_sentences(
            quorum_plan.comparison,
            "Brokers rename the folders of these logs to <topic>-<partition>.<digits>-stray, and do not "
            "delete them.",
        ),
    ]
