"""Settings of Spark that are ours, and those of the user that can't be right."""

import pytest

from aqueduct.errors import Refused
from aqueduct.work import options

IN_A_CONTAINER = {"spark.submit.deployMode": "cluster"}


@pytest.mark.parametrize("attempts", [{}, {"spark.yarn.maxAppAttempts": "2"}])
def test_yarn_may_not_run_a_driver_of_its_own_again(attempts: dict[str, str]) -> None:
    with pytest.raises(Refused, match=r"give spark-submit --conf spark\.yarn\.maxAppAttempts=1\.$"):
        options.missing("yarn", IN_A_CONTAINER | attempts)


@pytest.mark.parametrize(
    ("master", "has"),
    [
        ("yarn", IN_A_CONTAINER | {"spark.yarn.maxAppAttempts": "1"}),
        ("yarn", {"spark.submit.deployMode": "client", "spark.yarn.maxAppAttempts": "2"}),
        ("k8s://https://host", IN_A_CONTAINER),
    ],
)
def test_a_driver_that_is_not_run_again_needs_no_setting(master: str, has: dict[str, str]) -> None:
    assert options.missing(master, has) == {"spark.python.daemon.module": options.DAEMON}
