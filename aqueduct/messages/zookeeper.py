"""Messages about servers of ZooKeeper that an estate deploys."""

from aqueduct.messages.message import Area, DeclaredMessage

ZOOKEEPER = (
    DeclaredMessage(
        id="quorum-key-unreadable",
        area=Area.ZOOKEEPER,
        meaning="A file with a server's key or with certificates of the quorum cannot be read, or is a link.",
        fix="Run `playbooks/hosts.yml`, which brings the key, and then `playbooks/zookeeper.yml`.",
    ),
    DeclaredMessage(
        id="quorum-key-unsafe",
        area=Area.ZOOKEEPER,
        meaning=(
            "A file with a server's key or with certificates of the quorum is not a plain file of the "
            "service's user or of root. The service may have made it."
        ),
        fix=(
            "Find out who made the file. Remove it, and run `playbooks/hosts.yml` and then "
            "`playbooks/zookeeper.yml`. This deletes the key; the playbooks make another one."
        ),
    ),
)
