"""Applications for spark-submit: the verbs themselves, and every one that has options of Spark."""

from importlib import import_module
from pathlib import Path

import pytest

import spark_apps
from aqueduct import cli

APPS = sorted(path.stem for path in Path(spark_apps.__file__).parent.glob("[a-z]*.py"))


def test_every_verb_that_spark_runs_is_an_application(capsys: pytest.CaptureFixture[str]) -> None:
    assert [verb for verb in cli.VERBS if "--master" in help_of(verb, capsys)] == APPS


def help_of(verb: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        cli.main([verb, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("verb", APPS)
def test_an_application_is_its_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    main = import_module(f"spark_apps.{verb}").main
    assert main(["--no-such"]) == 2
    refused = capsys.readouterr().err
    assert cli.main([verb, "--no-such"]) == 2
    assert capsys.readouterr().err == refused
    assert f"see aqueduct {verb} --help" in refused
