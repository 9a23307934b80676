"""promtool, with which Prometheus itself checks rules and queries."""

import os


def promtool() -> str:
    path = os.environ.get("AQUEDUCT_PROMTOOL")
    assert path, "set AQUEDUCT_PROMTOOL to Prometheus's promtool: this test evaluates the real rules"
    return path
