"""Former names of options. They are accepted, with a warning, until the next minor release."""

from collections.abc import Iterable, Mapping

from aqueduct.errors import labelled

# The present names are those of Kafka's tools. No verb may use a former name with another meaning.
RENAMED = {
    "--bootstrap-servers": "--bootstrap-server",
    "--client-config": "--command-config",
    "--source-bootstrap-servers": "--source-bootstrap-server",
    "--source-config": "--source-command-config",
    "--target-bootstrap-servers": "--target-bootstrap-server",
    "--target-config": "--target-command-config",
    "--live": "--live-bootstrap-server",
    "--live-config": "--live-command-config",
    "--mirror-config": "--mirror-command-config",
    "--task-config": "--task-command-config",
    "--broker-config": "--broker-command-config",
    "--look": "--inspection",
}
# Former names of one verb. Other verbs still have options with these names. `reconcile --source` was for
# brokers and for stores, so its two present names are in aqueduct/cli/reconcile.py.
RENAMED_OF = {
    "mirror": {"--source": "--flow"},
    "reconcile": {"--target": "--target-bootstrap-server"},
}


def renamed(verb: str) -> Mapping[str, str]:
    """Return the present names of a verb's options by the former ones."""
    return RENAMED | RENAMED_OF.get(verb, {})


def warning(renamings: Iterable[tuple[str, str]]) -> str:
    """Return the warning about former names: pairs of a former name and the present one."""
    names = ", ".join(f"{former} is now {present}" for former, present in renamings)
    return labelled(
        "option-renamed", f"{names}. Use the new name: the next minor release does not accept the old one."
    )
