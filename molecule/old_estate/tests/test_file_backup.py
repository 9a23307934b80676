"""Of five daily file backups, one is interrupted and one is damaged. The others can be restored."""

import json
import re
from collections.abc import Iterator

import pytest
from lab import Lab, wait_until
from old_site import ENSEMBLE, SECOND

SOURCE, BACKUPS, NAME = "/srv/connectors", "/var/lib/file_backup", "connectors"
UNIT = f"file_backup@{NAME}.service"
DROP_IN = f"/run/systemd/system/{UNIT}.d/clock.conf"
CLOCK = """[Service]
Environment=LD_PRELOAD=/usr/lib/%s-linux-gnu/faketime/libfaketime.so.1
Environment=FAKETIME=+%dd NO_FAKE_STAT=1 FAKETIME_DISABLE_SHM=1
"""
AQUEDUCT = ("/opt/aqueduct/base/bin/aqueduct", "files")
BIG, FILES = 1 << 20, 100  # bytes of each of the files that take a while
PART = BIG * FILES // 4  # of what is to come, after which the unit is killed
# Ends the unit as a power cut would, when a part of what is to come is there. It kills by itself: the rest
# could come while systemctl starts.
KILLER = f"""
import glob, os, signal, subprocess
def processes():
    for path in glob.glob("/proc/[0-9]*/cgroup"):
        try:
            if "/{UNIT}" in open(path).read():
                yield int(path.split("/")[2])
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            pass
def kill(process):
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass
def written():
    total = 0
    for each in os.scandir(half[0] + "/tree/big"):
        try:
            total += each.stat().st_size
        except FileNotFoundError:  # it has got its name
            pass
    return total
subprocess.run(["systemctl", "start", "--no-block", "{UNIT}"], check=True)
half = []
while not half or not os.path.isdir(half[0] + "/tree/big"):
    half = [each.path for each in os.scandir("{BACKUPS}/{NAME}") if "unfinished" in each.name]
while written() < {PART}:
    pass
while found := [*processes()]:
    for each in found:
        kill(each)
print(written())
"""


class Days:
    """The unit of a backup, at days of our own; the machine's clock stays."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        lab.run(SECOND, "apt-get", "install", "--yes", "--no-install-recommends", "libfaketime")
        self.machine = lab.run(SECOND, "uname", "-m").stdout.strip()

    def set(self, day: int) -> None:
        clock = CLOCK % (self.machine, day)
        write = f"mkdir -p $(dirname {DROP_IN}) && cat > {DROP_IN} && systemctl daemon-reload"
        self.lab.run(SECOND, "sh", "-c", write, stdin=clock)

    def back_up(self, day: int) -> str:
        """Let the unit back up on that day; the date that it gave."""
        self.set(day)
        before = self.dates()
        self.lab.run(SECOND, "systemctl", "start", UNIT)
        wait_until("its end", lambda: not self.runs())
        said = self.lab.journal(SECOND, f"--unit={UNIT}")
        [new] = [each for each in self.dates() if each not in before] or pytest.fail(said)
        return new

    def runs(self) -> bool:
        shown = self.lab.run(SECOND, "systemctl", "show", "--property=ActiveState", UNIT).stdout
        return shown.strip() not in ("ActiveState=inactive", "ActiveState=failed")

    def listed(self) -> list[dict[str, object]]:
        if not self.lab.run(SECOND, "ls", BACKUPS).stdout:
            return []
        return list(json.loads(self.files("list", "--json")))

    def dates(self) -> list[str]:
        return [str(each["date"]) for each in self.listed()]

    def files(self, *arguments: str, code: int = 0) -> str:
        verb, *options = arguments
        done = self.lab.run(SECOND, *AQUEDUCT, verb, f"--backups={BACKUPS}", *options, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def write(self, name: str, content: str) -> None:
        """Write a file of the folder that is backed up."""
        self.lab.run(ENSEMBLE, "sh", "-c", f"cat > {SOURCE}/{name}", stdin=content)


@pytest.fixture
def days(lab: Lab) -> Iterator[Days]:
    yield Days(lab)
    lab.run(SECOND, "sh", "-c", f"rm -rf $(dirname {DROP_IN}) && systemctl daemon-reload")


def test_file_backups_ignore_interrupted_run_and_report_damage(days: Days) -> None:
    """Backups of five days: one run is killed, and a file that the other four share is damaged."""
    lab = days.lab
    lab.run(ENSEMBLE, "mkdir", "-p", f"{SOURCE}/big")
    days.write("sink.properties", "day 0\n")
    days.write("kept.properties", "as ever\n")
    date = ("date", "--utc", "+%F")
    before = lab.run(SECOND, *date).stdout.strip()
    first = days.back_up(0)
    after = lab.run(SECOND, *date).stdout.strip()  # the next day's, at midnight
    days.write("sink.properties", "day 1\n")
    second = days.back_up(1)
    today, tomorrow = (re.sub("T.*", "", each) for each in (first, second))
    assert today < tomorrow, "the clock of the unit was moved"
    assert before <= today <= after, "and no other"

    make = f"for n in $(seq {FILES}); do head -c {BIG} /dev/urandom > {SOURCE}/big/$n; done"
    lab.run(ENSEMBLE, "sh", "-c", make)
    days.set(2)
    came = int(lab.run(SECOND, "python3", "-c", KILLER).stdout)
    wait_until("its end", lambda: not days.runs())
    print(f"cut off after {came:,} of {BIG * FILES:,} bytes")
    assert PART <= came < BIG * FILES
    assert days.dates() == [first, second], "a part of a backup is none"

    days.write("sink.properties", "day 3\n")
    third = days.back_up(3)
    made = next(each for each in days.listed() if each["date"] == third)
    assert made["base"] == second, "the newest complete one"
    assert made["new_files"] == FILES + 1
    fourth = days.back_up(4)
    assert (days.listed()[-1]["base"], days.listed()[-1]["new_files"]) == (third, 0)
    assert "all files are as they were backed up" in days.files("verify")

    for date, content in ((first, "day 0\n"), (second, "day 1\n"), (third, "day 3\n"), (fourth, "day 3\n")):
        to = f"/var/tmp/{date}"
        days.files("restore", f"--name={NAME}", f"--at={date[:10]}", "--path=sink.properties", f"--to={to}")
        assert lab.run(SECOND, "cat", f"{to}/sink.properties").stdout == content
        assert lab.run(SECOND, "ls", to).stdout == "sink.properties\n"

    shared = f"{BACKUPS}/{NAME}/{second}/tree/kept.properties"
    lab.run(SECOND, "sh", "-c", f"printf X | dd of={shared} conv=notrunc status=none")
    said = days.files("verify", code=1)
    assert f"kept.properties: other content, time; in {first}, {second}, {third}, {fourth}." in said
    assert "big/" not in said
    assert "connectors is DAMAGED" in said
    to = f"--to=/var/tmp/{fourth}-kept"
    days.files("restore", f"--name={NAME}", "--path=kept.properties", to, code=1)
    days.files("restore", f"--name={NAME}", "--path=sink.properties", to)
