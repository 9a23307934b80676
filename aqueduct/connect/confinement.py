"""The files that a connector's configuration may name: what no connector of an estate needs is refused."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence

from aqueduct.common.wording import some
from aqueduct.connect.worker import has_reference, references

_PACKAGE = "org.apache.kafka.connect.file."
# As connector.class may name them.
FILE_CONNECTORS = {
    f"{package}{kind}{end}"
    for kind in ("FileStreamSink", "FileStreamSource")
    for package, end in ((_PACKAGE, "Connector"), ("", "Connector"), ("", ""))
}


def faults(config: Mapping[str, str], folders: Sequence[str], secrets_file: str) -> Iterator[tuple[str, str]]:
    """Yield keys of a configuration, each with why it can't be so.

    `folders`: those of Kafka's file connectors, without which these are off. `secrets_file`: the only one.
    """
    if config.get("connector.class", "").strip() in FILE_CONNECTORS:
        yield from _faults_of_file(config.get("file", ""), folders)
    for key, value in config.items():
        if any(
            reference.provider == "file" and reference.path != secrets_file for reference in references(value)
        ):
            yield key, f"a connector may refer only to {secrets_file}; add the value to connect_secrets."


def _faults_of_file(file: str, folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not folders:
        yield "connector.class", "file connectors are not allowed; add a folder to connect_file_directories."
    elif not file:
        yield (
            "connector.class",
            "a file connector without a file uses the standard input and output of the worker; set file.",
        )
    elif not any(_is_in(file, folder) for folder in folders):
        yield (
            "file",
            (
                f"{file} is not in {some(folders)} (connect_file_directories); use a file in one of these "
                "folders."
            ),
        )


def _is_in(file: str, folder: str) -> bool:
    inside = posixpath.normpath(folder).rstrip("/") + "/"
    return not has_reference(file) and posixpath.normpath(file).startswith(inside)
