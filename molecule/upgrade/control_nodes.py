"""The steps of molecule that need a control node of each release; see tests/releases.py.

python molecule/upgrade/control_nodes.py install   builds and installs both releases
python molecule/upgrade/control_nodes.py deploy    deploys the estate with the older one
"""

import sys
from pathlib import Path

SCENARIO = Path(__file__).resolve().parent
ROOT = SCENARIO.parents[1]
sys.path[:0] = [str(SCENARIO / "tests"), str(SCENARIO.parent / "shared"), str(ROOT / "tests")]

import control_node  # noqa: E402
import release_files  # noqa: E402 (of the folder tests/)
import releases  # noqa: E402


def install() -> int:
    if reason := releases.missing_commit(ROOT):
        print(reason, file=sys.stderr)
        return 1
    releases.remove_installed()
    older, newer = releases.installed()
    releases.export_commit(ROOT, releases.OLDER_COMMIT, older.tree)
    newer.tree.mkdir(parents=True)
    release_files.export(newer.tree)
    for release in (older, newer):
        wheel = release_files.wheel(release.tree, release.folder)
        release.install(wheel, release_files.collection(release.tree, release.folder))
    return 0


def deploy() -> int:
    older, _ = releases.installed()
    deployed = older.play("site", SCENARIO / "inventory")
    print(deployed.stdout)
    print(f"Changed: {sum(control_node.changes(deployed.stdout).values())}")
    return deployed.returncode


if __name__ == "__main__":
    sys.exit({"install": install, "deploy": deploy}[sys.argv[1]]())
