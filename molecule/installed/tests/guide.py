"""The commands of docs/guides/install.md, as they stand, on a control node that cannot see the checkout.

The control node is a folder of this machine, with an empty home and the files of a release. Its programs are
Debian's. In its mount namespace, an empty file system covers the checkout. It shares with this machine the
container engine, and the cache of third-party files (AQUEDUCT_CACHE), whose digests are checked at each use.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import control_node as shared

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/guides/install.md"
# Not below the checkout, where molecule has its own folders, and not in memory: environments take 2 GB.
FOLDER = Path("/var/tmp/aqueduct-installed")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HIDE = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
CACHE = "AQUEDUCT_CACHE"
PYTHON = "AQUEDUCT_GUIDE_PYTHON"  # the guide's python3, if it is not Debian's
BLOCK_SECONDS = 3600  # of what never ends by itself
ELEMENT = re.compile(
    r"^## (?P<section>[^\n]+)$|^(?:<!-- needs (?P<needs>[^\n]+) -->\n)?```sh\n(?P<commands>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
# Commands by which a block is found.
DEPLOYMENT, REMOVAL = "ansible-playbook aqueduct.estate.lab_up", "ansible-playbook aqueduct.estate.lab_down"
AGAIN = "ansible-playbook aqueduct.estate.site"


@dataclass(frozen=True, kw_only=True)
class Block:
    """Commands of the guide; each section begins in the folder with the files of the release."""

    section: str
    number: int  # in its section
    commands: str

    @property
    def name(self) -> str:
        return f"{self.section} {self.number}"


@dataclass(frozen=True, kw_only=True)
class Run:
    code: int
    output: str


def parse_blocks(page: str, version: str) -> Iterator[Block]:
    """Yield the blocks that need no hosts of the reader, with the version that the guide says to replace."""
    section, number = "", 0
    for element in ELEMENT.finditer(page):
        if element["section"]:
            section, number = element["section"], 0
            continue
        number += 1
        if not element["needs"]:
            commands = element["commands"].replace("0.1.0", version)
            yield Block(section=section, number=number, commands=commands)


def pins(lock: str) -> str:
    """Return the versions of a lock file, without the digests that pip refuses beside a file without one."""
    return "".join(f"{pin}\n" for pin in re.findall(r"^([a-z0-9].*?) \\$", lock, re.MULTILINE))


@cache
def blocks() -> tuple[Block, ...]:
    return tuple(parse_blocks(PAGE.read_text(), (ROOT / "VERSION").read_text().strip()))


def block_with(commands: str) -> Block:
    """Return the one block that has these commands."""
    [block] = (block for block in blocks() if commands in block.commands)
    return block


def until(last: Block) -> tuple[Block, ...]:
    """Return the blocks up to this one, and with it."""
    return blocks()[: blocks().index(last) + 1]


@dataclass(frozen=True)
class ControlNode:
    folder: Path

    @property
    def files(self) -> Path:
        """Return the folder with the files of the release."""
        return self.folder / "files"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def programs(self) -> Path:
        """Return the folder with programs that come before Debian's."""
        return self.folder / "programs"

    @property
    def constraints(self) -> Path:
        """Return pip's file of constraints: the versions of all packages that are tested."""
        return self.folder / "constraints.txt"

    @property
    def inventory(self) -> Path:
        return self.files / "trial/inventories/estate"

    @property
    def _transcript(self) -> Path:
        return self.folder / "transcript.json"

    @property
    def _last_folder(self) -> Path:
        """Return the file with the folder in which the last block ended."""
        return self.folder / "last-folder"

    def put_python(self, python: Path) -> None:
        """Let the guide's python3 be this one, without the packages of its environment."""
        self.programs.mkdir(exist_ok=True)
        (self.programs / "python3").symlink_to(python.resolve())

    def runs(self) -> dict[str, Run]:
        """Return the runs so far, by the names of their blocks."""
        saved = json.loads(self._transcript.read_text()) if self._transcript.exists() else {}
        return {name: Run(**run) for name, run in saved.items()}

    def run(self, block: Block) -> Run:
        """Run a block where the one before it ended; the first of a section, in the folder of the files."""
        if block.number == 1:
            self._last_folder.unlink(missing_ok=True)
        run = self.run_commands(block.commands)
        print(f"==> {block.name}\n{block.commands}{run.output}", flush=True)
        runs = self.runs() | {block.name: run}
        self._transcript.write_text(json.dumps({name: asdict(run) for name, run in runs.items()}, indent=2))
        return run

    def run_commands(self, commands: str) -> Run:
        """Run commands where the last block ended; the first that fails ends them."""
        folder = self._last_folder.read_text().strip() if self._last_folder.exists() else str(self.files)
        activate = shlex.quote(str(self.files / "environment/bin/activate"))
        script = (
            f"trap 'pwd >{shlex.quote(str(self._last_folder))}' EXIT\n"
            f"cd {shlex.quote(folder)}\n"
            f"[ ! -e {activate} ] || . {activate}\n"
            f"{commands}"
        )
        tested_versions = {"PIP_CONSTRAINT": str(self.constraints)} if "pip install" in commands else {}
        hidden = ("unshare", "--mount", "--", "bash", "-c", HIDE, str(ROOT))
        run = subprocess.run(
            [*hidden, "bash", "-e", "-o", "pipefail", "-c", script],
            cwd=self.files,
            env=self._environment | tested_versions,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BLOCK_SECONDS,
        )
        return Run(code=run.returncode, output=run.stdout)

    @property
    def _environment(self) -> dict[str, str]:
        inherited = shared.environment(f"{self.programs}:{PATH}").items()
        own = {name: value for name, value in inherited if not name.startswith("AQUEDUCT_") or name == CACHE}
        return own | {"HOME": str(self.home)}


def control_node() -> ControlNode:
    return ControlNode(FOLDER)
