"""Names that a flow has at its target: topics of positions and checkpoints, transactional ids, its group."""

CLIENT = "aqueduct-mirror"  # clients and transactional ids of a flow begin so


def positions_topic(flow: str) -> str:
    """Return the name of the target's topic of positions. Mirrors skip topics that end so."""
    return f"aqueduct-mirror-positions.{flow}.internal"


def checkpoints_topic(flow: str) -> str:
    return f"aqueduct-mirror-checkpoints.{flow}.internal"


def state_topics(flow: str) -> tuple[str, str]:
    return positions_topic(flow), checkpoints_topic(flow)


def task_id(flow: str, number: int) -> str:
    """Return what a task's transactional ids begin with, and its clients are called."""
    return f"{CLIENT}-{flow}-{number}"


def group_of(flow: str) -> str:
    """Return the group whose members share the tasks of a flow."""
    return f"{CLIENT}-{flow}"


def member_id(flow: str, host: str) -> str:
    """Return the client id of a member of that group."""
    return f"{group_of(flow)}@{host}"


def member_host(client_id: str) -> str:
    """Return the host of a member by its client id; empty: it is not a member's."""
    return client_id.partition("@")[2]
