"""What the role monitoring tells Debian's node exporter."""

import re
from pathlib import Path

import pytest
import yaml

VARIABLES = Path(__file__).resolve().parents[2] / "roles/monitoring/vars/main.yml"


@pytest.mark.parametrize(
    ("mount_point", "is_reported"),
    [("/", True), ("/mnt/filling", True), ("/media/disk", True), ("/run/lock", False), ("/proc", False)],
)
def test_it_reports_file_systems_of_data(mount_point: str, is_reported: bool) -> None:
    """Debian's exporter ignores /mnt and /media, where data disks may be."""
    command = yaml.safe_load(VARIABLES.read_text())["_monitoring_node_command"]
    [ignored] = re.findall(r"mount-points-exclude=([^']*)'", command)
    assert (re.search(ignored, mount_point) is None) == is_reported
