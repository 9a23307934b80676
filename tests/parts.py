"""Print the table that script/test ends with: for each of its parts the tests, the failed ones, the seconds.

    python tests/parts.py DIRECTORY

DIRECTORY holds `parts`, with a line `name<tab>exit code<tab>seconds` for each part, and pytest's own report
`name.xml` of each part but lint, which is one check. `left_out` and `without_all`, if they exist, list labs
that did not run. The exit code is 1 if anything failed, or a lab of `left_out` is missing. A part that fails
without a failed test, and a part that ran no test, count as one failure each: silence is never a success.
Below the table stand the slowest tests, each with its set-up, and the failed tests with what they printed:
the end may be all that is kept of a long log.
"""

import heapq
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

COLUMNS = "{:<24} {:>6} {:>6} {:>7} {:>7}"
SAID_CHARACTERS = 3000
TRACEBACK_LINES = 12
SLOWEST = 20
HEADS = ("part", "tests", "failed", "skipped", "seconds")


@dataclass(frozen=True)
class Case:
    """A test as pytest reports it; `folder` is its first two, such as tests/unit."""

    folder: str
    name: str
    outcome: str  # passed, failed or skipped
    seconds: float
    said: str = ""  # by a failed test


@dataclass(frozen=True)
class Part:
    name: str
    exit_code: int
    seconds: float
    cases: tuple[Case, ...]

    @property
    def problem(self) -> str:
        """Say why the part failed, where no failed test does."""
        if self.exit_code and not self.count("failed"):
            return f"{self.name} failed with exit code {self.exit_code}; why stands above."
        if not self.count("passed") and not self.count("failed"):
            return f"{self.name} ran no test."
        return ""

    def count(self, outcome: str) -> int:
        return sum(case.outcome == outcome for case in self.cases)

    def row(self) -> str:
        failed = self.count("failed") + bool(self.problem)
        return COLUMNS.format(
            self.name, len(self.cases), failed, self.count("skipped"), f"{self.seconds:,.0f}"
        )

    def of_which(self) -> Iterator["Part"]:
        """Split it by folder, where it has several; their seconds overlap, for tests run side by side."""
        folders = Counter(case.folder for case in self.cases)
        for folder in sorted(folders) if len(folders) > 1 else ():
            cases = tuple(case for case in self.cases if case.folder == folder)
            yield Part(f"  {folder}", 0, sum(case.seconds for case in cases), cases)


def read_parts(directory: Path) -> Iterator[Part]:
    for line in (directory / "parts").read_text().splitlines():
        name, code, seconds = line.split("\t")
        report = directory / f"{name}.xml"
        if name == "lint":
            cases = (Case("lint", "lint", "failed" if code != "0" else "passed", float(seconds)),)
        else:
            cases = tuple(read_cases(report)) if report.exists() else ()
        yield Part(name, int(code), float(seconds), cases)


def read_cases(report: Path) -> Iterator[Case]:
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        found = {each.tag: each.get("message") or "" for each in case}
        failed = found.keys() & {"failure", "error"}
        outcome = "failed" if failed else "skipped" if "skipped" in found else "passed"
        said = found.get("failure") or found.get("error") or ""
        if failed:  # the message of an assertion in a helper is its type alone
            traceback = "".join(each.text or "" for each in case if each.tag in failed)
            said = "\n".join([said, *traceback.splitlines()[-TRACEBACK_LINES:]])
        place, name = case.get("classname") or "", case.get("name") or ""
        folder = "/".join((place or name).split(".")[:2])
        yield Case(folder, f"{place}.{name}", outcome, float(case.get("time") or 0), said)


def main() -> int:
    # Some run side by side.
    parts = sorted(read_parts(Path(sys.argv[1])), key=lambda part: ("/" in part.name, part.name))
    print(COLUMNS.format(*HEADS))
    for part in parts:
        print(part.row())
        for each in part.of_which():
            print(each.row())
    print()
    for case in heapq.nlargest(
        SLOWEST, (case for part in parts for case in part.cases), lambda case: case.seconds
    ):
        print(f"{case.seconds:>7,.0f} s  {case.name}")
    print()
    problems = [part.problem for part in parts if part.problem]
    for problem in problems:
        print(problem)
    for case in (case for part in parts for case in part.cases if case.outcome == "failed" and case.said):
        print(f"{case.name} failed after {case.seconds:,.0f} s: {case.said[:SAID_CHARACTERS]}")
    left_out = Path(sys.argv[1], "left_out")
    not_run = left_out.read_text().split() if left_out.exists() else []
    if not_run:
        print(f"NOT RUN, because it would not have ended in time: {', '.join(not_run)}")
    without_all = Path(sys.argv[1], "without_all")
    if without_all.exists():
        print(f"NOT RUN without --all: {', '.join(without_all.read_text().split())}")
    failed = sum(part.count("failed") for part in parts) + len(problems)
    skipped = sum(part.count("skipped") for part in parts)
    passed = sum(part.count("passed") for part in parts)
    counts = {"skipped": skipped, "labs not run": len(not_run)}
    others = (f", {number} {name}" for name, number in counts.items() if number)
    print(f"{passed} passed, {failed} failed{''.join(others)}")
    return bool(failed or not_run) or not parts


if __name__ == "__main__":
    sys.exit(main())
