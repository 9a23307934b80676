"""The scenario's site, whose backups are kept, pruned and drilled."""

import json
import os
import re
from typing import Any

from backed_up import BackedUpSite

SITE, STORE, DRILL = "pro1-kafka-1", "pro1-store-1", "pro1-drill-1"
# One seed of each class of fault in CI; `script/scenario keep --all` runs them all.
ALL = bool(os.environ.get("AQUEDUCT_ALL_SEEDS"))
SEEDS = range(1, 6) if ALL else range(1, 2)
EACH_TIME_A_GENERATION = ("--compacted-generation-hours", "0.0001")


class Kept(BackedUpSite):
    site, store = SITE, STORE

    def back_up(self, store: str, *topics: str) -> None:
        code, said = self.aqueduct(
            *("backup", "--store", store, "--topics", ",".join(topics), "--segment-records", "500"),
            *EACH_TIME_A_GENERATION,
        )
        assert code == 0, said

    def prune(self, store: str, *keep: str) -> tuple[int, str]:
        """Remove what `keep` does not keep, as the user who may delete and not create."""
        return self.aqueduct("prune", "--store", store, "--execute", *keep, user="pruner")

    def snapshots(self, store: str) -> list[dict[str, Any]]:
        code, said = self.aqueduct("snapshots", "--store", store, "--json")
        assert code == 0, said
        return list(json.loads(said))

    def restored(self, store: str, snapshot: int, topic: str, name: str) -> list[bytes | None]:
        """Restore a topic of one snapshot under another name; the values that an independent client reads."""
        code, said = self.aqueduct(
            *("restore", "--store", store, "--snapshot", str(snapshot), "--topics", f"{topic}:{name}"),
            "--no-groups",
        )
        assert code == 0, said
        return [record.value for record in self.lab.read(SITE, name)[0]]

    def generations(self, prefix: str, topic: str) -> set[int]:
        """The generations of which the store has any object."""
        found = (re.search(rf"/{prefix}/topics/{topic}/g(\d+)/", str(path)) for path in self.objects(prefix))
        return {int(each[1]) for each in found if each}
