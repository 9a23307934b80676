"""A captured host answers with sequences that set a terminal: the operator sees them as text."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLACK = "\x1b[0;30m"  # what follows cannot be seen on a black terminal
# Clears the screen, writes the clipboard, sets the title; the same by one byte; turns what follows around.
HOSTILE = {
    BLACK: r"\x1b[0;30m",
    "\x1b[2J": r"\x1b[2J",
    "\x1b]52;c;cm0=\x07": r"\x07",
    "\x9b31m": r"\u009b",
    "\u202e": r"\u202e",
}
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MODULE = """#!/usr/bin/python
import json
text = "first %s last"
print(json.dumps({
    "changed": True, "failed": %s, "msg": text, "stderr": text, "stdout": text, "warnings": [text],
    "exception": text, "diff": {"before": text, "after": "", "before_header": text, "after_header": text},
}))
"""
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - hostile:
      register: found
      ignore_errors: true
    - ansible.builtin.debug: {msg: "{{ found.msg }} in a sentence\nof two lines"}
    - ansible.builtin.assert: {that: false, fail_msg: "{{ [found.stdout] }}"}
"""


def said(folder: Path, *, fails: bool, colour: bool) -> str:
    """Return what a playbook prints of a host that answers so."""
    library = folder / "library"
    library.mkdir()
    (library / "hostile.py").write_text(MODULE % ("".join(HOSTILE).encode("unicode_escape").decode(), fails))
    (folder / "play.yml").write_text(PLAY)
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            *(str(folder / "play.yml"), "--inventory=localhost,", "--connection=local", "--diff", "-v"),
            f"--extra-vars=ansible_python_interpreter={sys.executable}",
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_LIBRARY": str(library),
            "ANSIBLE_FORCE_COLOR": str(colour),
        },
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    return (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_host_answers_sets_no_terminal(tmp_path: Path, fails: bool) -> None:
    printed = said(tmp_path, fails=fails, colour=False)
    assert [text for text in HOSTILE.values() if text not in printed] == []
    assert [each for each in printed if not each.isprintable() and each != "\n"] == []


def test_colours_of_ansible_stay(tmp_path: Path) -> None:
    printed = said(tmp_path, fails=True, colour=True)
    assert COLOUR.search(printed)
    assert "\x1b" not in COLOUR.sub("", printed)
    assert BLACK not in printed
    assert BLACK.replace("\x1b", r"\x1b") in printed
