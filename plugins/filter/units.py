"""Filters for units of systemd: what every service of ours may not do, stands here alone."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from aqueduct.recovery.file_backup.plan import restriction

MEMORY = "75%"  # of its host: what inflates, or a client that asks for much, ends a service and not the host
HARDENED = {
    "NoNewPrivileges": "true",
    "ProtectSystem": "strict",
    "ProtectHome": "true",
    "PrivateTmp": "true",
    "PrivateDevices": "true",
    "ProtectKernelTunables": "true",
    "ProtectKernelModules": "true",
    "ProtectKernelLogs": "true",
    "ProtectControlGroups": "true",
    "ProtectClock": "true",
    "ProtectHostname": "true",
    "ProtectProc": "invisible",  # processes of other users
    "RestrictNamespaces": "true",
    "RestrictRealtime": "true",
    "RestrictSUIDSGID": "true",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "LockPersonality": "true",
    "CapabilityBoundingSet": "",
    "SystemCallArchitectures": "native",
    # With Landlock, which only takes rights away: a driver of Spark uses it (Debian 12's group lacks it).
    "SystemCallFilter": "@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    "SystemCallErrorNumber": "EPERM",  # a library that tries another call is told, not killed
}


def hardened(properties: Mapping[str, Any], user: str, writable: str = "") -> dict[str, Any]:
    """`properties | hardened(user, writable)`: properties of a service that runs as a user and may write to
    these folders (with blanks between them) and nowhere else. Its memory has a limit (`MemoryMax`)."""
    identity = {"User": user, "Group": user, "MemoryMax": MEMORY}
    folders = topmost(writable)
    return {**identity, **properties, **HARDENED, **({"ReadWritePaths": folders} if folders else {})}


def topmost(folders: str) -> str:
    """Return those of the folders (with blanks between them) that are below no other one.

    Systemd follows a link in `ReadWritePaths`. A service may write to the upper folder: it could put a link
    in the place of the lower one, and after its next start write wherever that leads.
    """
    paths = {word: PurePosixPath(word.lstrip("-+")) for word in folders.split()}
    first = {path: word for word, path in reversed(paths.items())}
    return " ".join(
        word
        for word, path in paths.items()
        if first[path] == word and not any(above in first for above in path.parents)
    )


def confined(properties: Mapping[str, Any]) -> dict[str, Any]:
    """`properties | confined`: properties of a command that sets a host up as root, and does nothing else.

    It may run before there is a /tmp of its own.
    """
    return {**{name: value for name, value in HARDENED.items() if name != "PrivateTmp"}, **properties}


def sandboxed(
    argv: Iterable[Any], user: str, writable: str = "", properties: Mapping[str, Any] | None = None
) -> list[str]:
    """`argv | sandboxed(user, writable)`: a command that runs another one as a service's user, in a sandbox
    as its unit has, and answers as that one does. Outside of one, a captured service would reach it."""
    options = [
        f"--property={name}={value}" for name, value in hardened(properties or {}, user, writable).items()
    ]
    run = ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", *options, "--"]
    return [*run, *(str(word).replace("$", "$$") for word in argv)]  # systemd would put variables in


def unit_lines(properties: Mapping[str, Any]) -> str:
    """`properties | unit_lines`: as a unit file has them."""
    return "\n".join(f"{name}={value}" for name, value in properties.items())


def instances(names: Iterable[Any], pattern: Any, counters: Mapping[str, Any] | None = None) -> list[Any]:
    """`names | instances(pattern, {key: first})`: the pattern for each name, which replaces `%i` in texts.

    A key of `counters` gets `first` in the first instance, and one more in each that follows.
    """
    made = []
    for number, name in enumerate(names):
        instance = _instance(pattern, str(name))
        if counters:
            instance |= {key: int(first) + number for key, first in counters.items()}
        made.append(instance)
    return made


def _instance(pattern: Any, name: str) -> Any:
    if isinstance(pattern, Mapping):
        return {key: _instance(value, name) for key, value in pattern.items()}
    if isinstance(pattern, str):
        return pattern.replace("%i", name)
    return [_instance(part, name) for part in pattern] if isinstance(pattern, list) else pattern


def command_line(arguments: Iterable[Any]) -> str:
    """`arguments | command_line`: the value of `ExecStart=`, each argument quoted as systemd reads it."""
    return " ".join(json.dumps(str(argument)).replace("%", "%%").replace("$", "$$") for argument in arguments)


def option_words(options: Mapping[str, Any]) -> list[str]:
    """`options | option_words`: options of our command as words of its command line; see `option_file`."""
    return [
        f"--{name}" if value is True else f"--{name}={','.join(value) if isinstance(value, list) else value}"
        for name, value in _given(options)
    ]


def option_file(options: Mapping[str, Any]) -> str:
    """`options | option_file`: the content of a file for `aqueduct VERB --config`.

    An option whose value is an empty text, an empty list, none or false is skipped.
    """
    # JSON is YAML, and leaves no value to guess at.
    return "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in _given(options))


def _given(options: Mapping[str, Any]) -> Iterator[tuple[str, str | list[str] | bool]]:
    """Yield options that have a value, without Ansible's own kinds of texts and lists."""
    for name, value in options.items():
        if isinstance(value, list) and value:
            yield name, [str(word) for word in value]
        elif value is True:
            yield name, True
        elif value is not None and value is not False and value != [] and str(value):
            yield name, str(value)


def unit_environment(variables: Mapping[str, Any]) -> str:
    """`variables | unit_environment`: the value of `Environment=`."""
    return " ".join(json.dumps(f"{name}={value}").replace("%", "%%") for name, value in variables.items())


def environment_file(variables: Mapping[str, Any]) -> str:
    """`variables | environment_file`: the content of an `EnvironmentFile=`."""
    lines = (
        f"{name}={json.dumps(str(value), ensure_ascii=False)}" for name, value in sorted(variables.items())
    )
    return "".join(f"{line}\n" for line in ("# Ansible managed", *lines))


def folder_files(contents: Mapping[str, str | None], folder: str, owner: str) -> list[dict[str, str]]:
    """`contents | folder_files(folder, owner)`: the files of a folder, for the module `service_files`.

    `contents`: by name. A file without content (none) is removed. Others only their owner can read.
    """
    files = []
    for name, content in contents.items():
        stored = {"state": "absent"} if content is None else {"content": content}
        files.append({"dest": f"{folder}/{name}", "owner": owner, "mode": "0600", **stored})
    return files


def read_only_key(folder: str) -> str:
    """`folder | read_only_key`: options of authorized_keys, to read a folder and do nothing else."""
    return restriction(folder)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        every = (
            hardened,
            confined,
            sandboxed,
            unit_lines,
            instances,
            command_line,
            option_words,
            option_file,
            unit_environment,
            environment_file,
            folder_files,
            read_only_key,
        )
        return {function.__name__: function for function in every}
