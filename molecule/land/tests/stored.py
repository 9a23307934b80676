"""The same flights in the lake's object store: a lander of its own, which is killed, and who reads there."""

import json
import random
import time
from dataclasses import dataclass
from typing import Any

from lab import Lab, wait_until
from lake_readers import HOST, TABLE, Lake
from spark_cluster import Command

from demo.hive import AS_SERVICE, HOME

STORED, BUCKET = "flights.departures_stored", "s3://lake"
DECLARED = f"{HOME}/stored.yml"
LANDER, READER = "land-lake", "scenario"  # users of the store; who reads may do nothing else


def variables(lab: Lab, user: str) -> list[str]:
    """Return the environment by which that user reaches the store."""
    secret = (lab.pki / "passwords" / f"object-store.{user}").read_text().strip()
    return [
        f"AWS_ENDPOINT_URL=https://{HOST}:7070",
        "AWS_REGION=us-east-1",
        "AWS_CA_BUNDLE=/etc/aqueduct/land/tls/ca.pem",
        f"AWS_ACCESS_KEY_ID={user}",
        f"AWS_SECRET_ACCESS_KEY={secret}",
    ]


@dataclass(frozen=True)
class Store(Lake):
    """The tables in the store, as a reader sees them that shares no code with the product."""

    def lister(self, *arguments: str) -> list[str]:
        return ["env", *variables(self.lab, READER), *super().lister(*arguments)]

    def newest(self) -> int:
        [number] = self.ask("newest", STORED)
        return int(number)


class StoredLanding:
    """A lander that works in its own process, beside the site's service."""

    def __init__(self, lab: Lab) -> None:
        """Start it."""
        self.lab, self.store = lab, Store(lab)
        self.killed: dict[str, Any] = {}  # when, and after which commit
        [declared] = [each for each in lab.variables[HOST]["land_tables"] if each["table"] == TABLE]
        # What is late is in the table itself: both readings of the topic are tried.
        plain = {name: value for name, value in declared.items() if name != "late"} | {"table": STORED}
        lab.run(HOST, "tee", DECLARED, stdin=json.dumps([plain]))
        self._lander = self._land("--every=1s")

    def _land(self, *arguments: str) -> Command:
        cluster = (
            each
            for each in self.store.landing.options()
            if each.startswith(("--bootstrap-server=", "--command-config="))
        )
        own = (f"--declarations={DECLARED}", f"--location={BUCKET}")
        properties = (*AS_SERVICE, *(f"Environment={each}" for each in variables(self.lab, LANDER)))
        return Command(self.lab, HOST, properties, "land", *arguments, *cluster, *own)

    def kill(self, chance: random.Random) -> None:
        """kill -9 amid its rounds; wait until another one has landed more."""
        wait_until("a commit in the object store", lambda: self.store.newest() > 0, every=1)
        time.sleep(chance.uniform(0, 4))
        self._lander.kill()
        self._lander.ended()
        self.killed = {"at": time.time(), "commit": self.store.newest()}
        print("kill -9: the lander in the object store", flush=True)
        self._lander = self._land("--every=1s")
        wait_until("more in the object store", lambda: self.store.newest() > self.killed["commit"], every=1)

    def caught_up(self) -> None:
        """Stop it, and have all that the topic has land, and compared by the product itself."""
        self.lab.run(HOST, "systemctl", "stop", self._lander.unit)
        self._lander.ended()
        for arguments in (["--until-caught-up"], ["verify"]):
            code, said = self._land(*arguments).ended()
            print(said.strip(), flush=True)
            assert code == 0, said
