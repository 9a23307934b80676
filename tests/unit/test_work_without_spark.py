"""A host without PySpark: a sentence where Spark is wanted, and one process where it is not."""

from pathlib import Path

import pytest
from kit.identifiers import printed
from kit.without_spark import MAIN, run

from aqueduct.errors import ExitCode

CLUSTER = ("--bootstrap-server", "127.0.0.1:1")
STORE = ("--store", "file://{tmp}/store")
LAKE = ("--declarations", "{tmp}/tables.yml", "--location", "file://{tmp}/lake")
VERBS = {
    "backup": (*CLUSTER, *STORE, "--topics", "t"),
    "drill": (*CLUSTER, *STORE),
    "export": (*STORE, "--to", "file://{tmp}/to", "--format", "avro"),
    "land": (*CLUSTER, *LAKE, "--until-caught-up"),
    "land verify": (*CLUSTER, *LAKE),
    "reconcile": (
        *("--source-bootstrap-server", "127.0.0.1:1"),
        *("--target-bootstrap-server", "127.0.0.1:1"),
        *("--topics", "t"),
    ),
    "restore": (*CLUSTER, *STORE),
    "verify": STORE,
}


@pytest.mark.parametrize("verb", VERBS)
def test_master_is_refused_before_anything_is_done(verb: str, tmp_path: Path) -> None:
    (tmp_path / "tables.yml").write_text("- {table: lake.t, topics: [t], columns: [{name: n, type: int}]}\n")
    options = (each.format(tmp=tmp_path) for each in VERBS[verb])
    done = run(MAIN, *verb.split(), *options, "--master", "local[2]")
    assert done.returncode == ExitCode.REFUSED, done.stderr
    assert printed(done.stderr) == ["python-package-missing"]
    assert "aqueduct-estate[spark]" in done.stderr
    assert not (tmp_path / "store").exists()


def test_much_work_is_done_in_one_process() -> None:
    program = """
import os
os.cpu_count = lambda: 64
from aqueduct.work.crossover import Verb, Work
from aqueduct.work.runner import here, threads
from aqueduct.work.workers import Workers
with Workers("test") as workers:
    for verb in Verb:
        work = Work(verb, 10**15)
        assert workers.many(work) == 0
        assert workers.runner(work) is here
        assert workers.parallel(work) is threads
        assert not workers.depends_on_size(work)
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("when", [["--until-caught-up"], ["--every", "1s"]])
def test_landing_with_sql_is_refused_without_spark(when: list[str], tmp_path: Path) -> None:
    """It is refused before a cluster is asked, also for tables that need no Spark."""
    declared = "{topics: [t], columns: [{name: n, type: int}], table: lake"
    tables = f"- {declared}.plain}}\n- {declared}.filtered, sql: {{where: n > 1}}}}\n"
    (tmp_path / "tables.yml").write_text(tables)
    (tmp_path / "lake").mkdir()
    lake = (each.format(tmp=tmp_path) for each in LAKE)
    done = run(MAIN, "land", *CLUSTER, *lake, *when)
    assert done.returncode == ExitCode.REFUSED, done.stderr
    assert printed(done.stderr) == ["python-package-missing"]
    assert "aqueduct-estate[spark]" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "lake").iterdir()) == []


def test_spark_sql_is_refused() -> None:
    program = """
from aqueduct.errors import Refused
from aqueduct.work.workers import Workers
with Workers("test") as workers:
    try:
        workers.spark()
    except Refused as error:
        assert error.id == "python-package-missing", error
    else:
        raise AssertionError("Spark started")
"""
    done = run(program)
    assert done.returncode == 0, done.stderr
