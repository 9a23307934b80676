"""The steps of molecule that need a control node without the checkout; see tests/guide.py.

python molecule/installed/machine.py build    builds the files of a release
python molecule/installed/machine.py deploy   runs the guide up to the deployment; after that, deploys again
python molecule/installed/machine.py remove   removes the control node
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SCENARIO = Path(__file__).resolve().parent
ROOT = SCENARIO.parents[1]
sys.path[:0] = [str(SCENARIO / "tests"), str(SCENARIO.parent / "shared"), str(ROOT / "tests")]

import control_node  # noqa: E402
import guide  # noqa: E402
import release_files  # noqa: E402 (of the folder tests/)

# What the guide asks for.
PACKAGES = "source script/_setup.sh; have_packages maven python3 python3-venv util-linux"


def build() -> int:
    """Put the files of a release, and no others, into the folder in which the guide begins."""
    subprocess.run(["bash", "-c", PACKAGES], cwd=ROOT, check=True)
    remove()
    node = guide.control_node()
    node.files.mkdir(parents=True)
    node.home.mkdir()
    if python := os.environ.get(guide.PYTHON):
        node.put_python(Path(python))
    tree = release_files.export(node.folder / "tree")
    release_files.wheel(tree, node.files)
    release_files.collection(tree, node.files)
    lock = (tree / "locks/controller.txt").read_text()
    node.constraints.write_text(guide.pins(lock))
    shutil.rmtree(tree)
    return 0


def deploy() -> int:
    node, deployment = guide.control_node(), guide.block_with(guide.DEPLOYMENT)
    if deployment.name in node.runs():
        last = node.run_commands(guide.AGAIN)
        print(last.output)
    else:
        for block in guide.until(deployment):
            if (last := node.run(block)).code:
                return last.code
    print(f"Changed: {sum(control_node.changes(last.output).values())}")
    return last.code


def remove() -> int:
    shutil.rmtree(guide.control_node().folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit({"build": build, "deploy": deploy, "remove": remove}[sys.argv[1]]())
