"""The variables that a playbook accepts on its command line."""

from typing import Any

import pytest

from aqueduct.errors import Refused
from aqueduct.estate.playbook_variables import Declaration, check

DECLARATION = Declaration(
    playbook="playbooks/migrate.yml",
    kinds={"site": "own", "to": "own", "confirm": "own", "dry_run": "flag"},
    required=["site"],
    choices={"to": ["kraft", "zookeeper"]},
    confirms="site",
)


@pytest.mark.parametrize(
    ("given", "identifier"),
    [
        ({"site": "old", "sites": "old"}, "playbook-variable-unknown"),
        ({"site": "old", "dryrun": "true"}, "playbook-variable-unknown"),
        ({"site": "old", "kafka_dry_run": "true"}, "playbook-variable-unknown"),
        ({}, "playbook-variable-missing"),
        ({"site": "old", "dry_run": "ture"}, "playbook-variable-invalid"),
        ({"site": "old", "dry_run": ""}, "playbook-variable-invalid"),
        ({"site": "old", "dry_run": "1.5"}, "playbook-variable-invalid"),
        ({"site": "old", "dry_run": "maybe"}, "playbook-variable-invalid"),
        ({"site": "old", "to": "kraf"}, "playbook-variable-invalid"),
        ({"site": "old", "confirm": "yes"}, "playbook-variable-invalid"),
    ],
)
def test_variables_that_ansible_would_accept_are_refused(given: dict[str, Any], identifier: str) -> None:
    with pytest.raises(Refused) as refused:
        check(DECLARATION, given, {"kafka_version"})
    assert refused.value.id == identifier
    assert "Nothing was done." in refused.value.sentence


@pytest.mark.parametrize("dry_run", [True, "yes", "False"])
def test_variables_of_playbook_roles_and_ansible_are_accepted(dry_run: object) -> None:
    given = {"site": "old", "to": "kraft", "confirm": "old", "dry_run": dry_run}
    check(DECLARATION, given | {"kafka_version": "4.3.1", "ansible_user": "root"}, {"kafka_version"})
