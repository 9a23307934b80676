"""Names that a flow has at its target: topics of positions and checkpoints, transactional ids."""

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
