"""The role's way with a schema of another version, on a real PostgreSQL, by the metastore's real tool."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from kit import ansible_process
from kit.lakes import client

from servers import hive_metastore
from servers.hadoop import NODE, configure, run
from servers.hive_metastore import USER, schema_tool
from servers.process import Process, binary

ROOT = Path(__file__).parents[2]
ROLE = ROOT / "roles/hive_metastore"
# As the role's `configure.yml` has it, but for the unit and the sandbox, which need systemd.
PLAY = [
    {
        "hosts": "localhost",
        "gather_facts": False,
        "vars_files": [str(ROLE / "defaults/main.yml"), str(ROLE / "vars/main.yml")],
        "tasks": [
            {"include_tasks": str(ROLE / "tasks/schema.yml")},
            {"include_tasks": str(ROLE / "tasks/upgrade.yml"), "when": "_hive_metastore_is_older"},
        ],
    }
]


@dataclass(frozen=True)
class Schema:
    """A database, and what the role does to it."""

    folder: Path
    port: int
    process: Process

    @property
    def conf(self) -> Path:
        return self.folder / "conf"

    @property
    def dumps(self) -> list[Path]:
        return sorted((self.folder / "dumps").glob("*"))

    def psql(self, statement: str, database: str = "postgres") -> str:
        asked = (*self.program("psql", database), "--no-align", "--tuples-only", "--command", statement)
        return run([*asked]).strip()

    def program(self, name: str, database: str = "postgres") -> list[str]:
        """Return the command of a client, that reaches a database."""
        program = f"{binary('AQUEDUCT_POSTGRESQL')}/{name}"
        return [
            program,
            f"--host={NODE}",
            f"--port={self.port}",
            f"--username={USER}",
            f"--dbname={database}",
        ]

    def version(self) -> str:
        return self.psql('select "SCHEMA_VERSION" from "VERSION"')

    def play(self, **more: object) -> tuple[int, str]:
        """Run the role's tasks; return the exit code, and what was said."""
        play = self.folder / "play.yml"
        play.write_text(yaml.safe_dump(PLAY))
        (self.folder / "dumps").mkdir(exist_ok=True)
        given = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "_hive_metastore_sandboxed_tool": schema_tool(self.conf),
            "_hive_metastore_dump": [*self.program("pg_dump"), "--format=custom"],
            "_hive_metastore_dumps": str(self.folder / "dumps"),
            "_hive_metastore_dumper": "root",
            "_hive_metastore_own": {"javax.jdo.option.ConnectionURL": "jdbc:postgresql://db/hive"},
            **more,
        }
        done = ansible_process.play(play, f"--extra-vars={json.dumps(given)}")
        return done.returncode, done.stdout + done.stderr

    def restored(self, dump: Path, statement: str) -> str:
        """Return what a statement says of a database that is made of a dump."""
        self.psql("create database again")
        run([*self.program("pg_restore", "again"), str(dump)])
        return self.psql(statement, "again")


@pytest.fixture
def schema(tmp_path: Path) -> Iterator[Schema]:
    with hive_metastore.database() as (port, process):
        configure(tmp_path / "conf", {"metastore-site": hive_metastore.settings(tmp_path, port)})
        yield Schema(tmp_path, port, process)


@pytest.mark.parametrize("former", [pytest.param("1.2.0", marks=pytest.mark.long), "3.0.0"])
def test_schema_is_upgraded_unless_absent_or_newer(schema: Schema, former: str) -> None:
    """The role creates a missing schema later, so nothing is refused. An older schema is dumped first."""
    code, said = schema.play()
    assert code == 0, said
    assert "changed=0" in said
    assert schema.dumps == []
    run(schema_tool(schema.conf, "-initSchemaTo", former))
    assert schema.version() == former
    columns = {
        "DB_ID": 7,
        "DESC": "of before",
        "DB_LOCATION_URI": f"file://{schema.folder}",
        "NAME": "before",
    }
    if former == "3.0.0":
        columns["CTLG_NAME"] = "hive"
    names = ", ".join(f'"{name}"' for name in columns)
    schema.psql(f'insert into "DBS" ({names}) values {(*columns.values(),)}')  # noqa: S608
    code, said = schema.play()
    assert code == 0, said
    assert schema.version() == "3.1.0"
    [dump] = schema.dumps
    assert dump.name.startswith(f"schema-{former}-")
    assert schema.restored(dump, 'select "SCHEMA_VERSION" from "VERSION"') == former
    code, said = schema.play()  # again, which does nothing
    assert code == 0, said
    assert "changed=0" in said
    assert schema.dumps == [dump]
    with hive_metastore.serving(schema.folder, schema.process) as served, client(served) as hive:
        assert "before" in hive.get_all_databases()
        assert hive.get_database("before").description == "of before"
    schema.psql('update "VERSION" set "SCHEMA_VERSION" = \'4.0.0\'')
    code, said = schema.play()
    assert code == 2, said
    newer = plain(said)
    assert "[metastore-schema-newer] " in newer
    assert all(version in newer for version in ("4.0.0", "3.1.3", "3.1.0"))
    assert schema.version() == "4.0.0"
    assert schema.dumps == [dump]


@pytest.mark.long
def test_remote_database_is_upgraded_only_with_confirmed_dump(schema: Schema) -> None:
    run(schema_tool(schema.conf, "-initSchemaTo", "3.0.0"))
    elsewhere = {"hive_metastore_database_url": "jdbc:postgresql://db/hive"}
    for dumped in ("", "2.3.0"):
        code, said = schema.play(**elsewhere, hive_metastore_dumped_schema=dumped)
        assert code == 2, said
        assert "jdbc:postgresql://db/hive has the schema 3.0.0" in plain(said)
        assert "run the playbook again with -e hive_metastore_dumped_schema=3.0.0." in plain(said)
        assert schema.version() == "3.0.0"
    code, said = schema.play(**elsewhere, hive_metastore_dumped_schema="3.0.0")
    assert code == 0, said
    assert schema.version() == "3.1.0"
    assert schema.dumps == []


@pytest.mark.long
def test_failed_upgrade_names_its_dump(schema: Schema) -> None:
    run(schema_tool(schema.conf, "-initSchemaTo", "3.0.0"))
    schema.psql('drop table "PART_COL_PRIVS" cascade')
    code, said = schema.play()
    assert code == 2, said
    [dump] = schema.dumps
    assert re.search(r"\[metastore-upgrade-failed\] .* 3\.0\.0 .* 3\.1\.0 ", plain(said))
    assert str(dump) in said


def plain(said: str) -> str:
    return " ".join(said.split())
