"""The alert rules of all files, by name."""

from pathlib import Path
from typing import Any

import yaml

FILES = sorted((Path(__file__).resolve().parents[2] / "docs/alerts").iterdir())
GROUPS: list[dict[str, Any]] = [
    group for file in FILES for group in yaml.safe_load(file.read_text())["groups"]
]
RULES = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
