"""Wrap the keys of an encrypted backup for other recipients; what they encrypt stays as it is.

Each key is opened with the private key of a recipient of today, and stored once more, under a higher number,
for those that are named now. Objects of former wrappings stay: who has a former private key and reads those
can still open the backups of that time, until keys/*.<lower number>.json are removed. A run that was cut
short resumes when it is given again.

At the end every key's object is read again, and opened with each private key that is given: add those of the
new recipients to prove that they can read the backup. An object that lists recipients, but was made without
the key, is not believed: the key is wrapped under another number. If somebody planted one with the highest
number, it is reported.

Exit code: 0 done, 3 done, and the store has objects that somebody planted, 1 the store can't be read or
written, or a key is not found as it was written, 2 nothing was written: no key opens all of it.
"""

import argparse
from pathlib import Path

from aqueduct.cli import common
from aqueduct.cli.extra import spark_packages
from aqueduct.errors import ExitCode, Refused, Skipped
from aqueduct.wording import count, some


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_store(parser)
    common.add_private_key(parser)
    for option, required, help_ in (
        ("--recipient", True, "public keys of those who may read the backup from now on; may be repeated"),
        ("--manifest-recipient", False, "the same, of those who may read manifests alone: a backup host"),
    ):
        parser.add_argument(
            option, metavar="FILE", type=Path, action="append", default=[], required=required, help=help_
        )


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.store.backends import open_store
        from aqueduct.store.keyring import Keyring

    if not args.private_key:
        raise Refused("--private-key is needed: the file of one who may read the backup now.")
    recipients, hosts = common.public_keys(args.recipient), common.public_keys(args.manifest_recipient)
    keys = Keyring(open_store(args.store), common.private_keys(args))
    rewrapped = keys.rewrap(recipients, hosts)
    names = some(key.fingerprint.hex() for key in recipients)
    print(f"{rewrapped.wrapped:,} of {count(rewrapped.keys, 'key')} of {args.store} wrapped for {names}.")
    for path in rewrapped.planted:
        reason = (
            "it was written without the key, so no recipient can use it. Find out who can write to the "
            "store, and remove this object"
        )
        print(f"Skipped: {Skipped(path, reason, 'key-object-planted')}.")
    return ExitCode.INCOMPLETE if rewrapped.planted else ExitCode.DONE
