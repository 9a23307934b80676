"""One run of the guide for all tests of this scenario."""

import pytest
from guide import ControlNode, control_node
from lab import Lab
from outcome import Outcome, finish_guide


@pytest.fixture(scope="session")
def node() -> ControlNode:
    return control_node()


@pytest.fixture(scope="session")
def outcome(node: ControlNode) -> Outcome:
    return finish_guide(node, Lab(node.inventory))
