"""Which Spark cluster a site has and uses, and what its settings' file holds."""

import pytest

from aqueduct.estate import spark
from aqueduct.kafka.client_config import parse_properties

GROUPS = {
    "site_lake": ["lake-1", "lake-2", "lake-3"],
    "site_pro": ["pro-1"],
    "spark_master": ["lake-2", "lake-1"],
}
HOSTVARS = {
    "lake-1": {},
    "lake-2": {"spark_master_port": 7000, "spark_host": "10.0.0.2"},
    "lake-3": {},
    "pro-1": {},
}


def test_spark_masters_are_in_inventory_order() -> None:
    assert spark.own_master(GROUPS, HOSTVARS, "lake", 7077) == "spark://lake-1:7077,10.0.0.2:7000"
    assert spark.own_master(GROUPS, HOSTVARS, "pro", 7077) == "local[*]"


def test_spark_master_is_found_by_name_or_address() -> None:
    for master in ("spark://lake-2:7000", "spark://10.0.0.2:7000", "spark://elsewhere:7077,10.0.0.2:7000"):
        found = spark.master_host(GROUPS, HOSTVARS, master)
        assert (found, spark.site_of(GROUPS, found)) == ("lake-2", "lake")
    assert spark.master_host(GROUPS, HOSTVARS, "spark://lake-3:7077") == ""
    assert spark.site_of(GROUPS, "") == ""
    assert spark.unknown_hosts(GROUPS, HOSTVARS, "spark://lake-1:7077,lake-3:7077") == ["lake-3"]
    assert spark.unknown_hosts(GROUPS, HOSTVARS, "yarn") == []


@pytest.mark.parametrize(
    ("master", "legal"),
    [
        *(
            (each, True)
            for each in (
                "local",
                "local[*]",
                "local[4]",
                "local[2,3]",
                "yarn",
                "k8s://https://a.example.com:6443",
            )
        ),
        *((each, True) for each in ("spark://a:7077", "spark://a:7077,b:7077")),
        *(
            (each, False)
            for each in ("", "spark://a", "spark://a:7077,", "spark:/a:7077", "YARN", "k8s://", "mesos://a:1")
        ),
    ],
)
def test_a_master_is_what_spark_takes(master: str, legal: bool) -> None:
    assert bool(spark.MASTER.fullmatch(master)) == legal


def test_defaults_file_parses_back_to_its_settings() -> None:
    settings = {"spark.b": True, "spark.a": r"C:\x", "spark.c": 7}
    text = spark.defaults_file(settings)
    assert text == "spark.a=C:\\\\x\nspark.b=true\nspark.c=7\n"
    assert parse_properties(text) == {"spark.a": r"C:\x", "spark.b": "true", "spark.c": "7"}


def test_pages_ask_for_a_certificate() -> None:
    settings = spark.pages("/tls", "password")
    assert settings["spark.ssl.needClientAuth"] == "true"
    assert settings["spark.ssl.trustStore"] == "/tls/trust.p12"
    assert {value for key, value in settings.items() if "assword" in key} == {"password"}
