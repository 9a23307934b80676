"""Wrap the keys of an encrypted backup for other recipients. The encrypted data does not change.

The command opens each key with the private key of a current recipient. It stores the key again, wrapped for
--recipient, and keys of manifests for --manifest-recipient, too. If a run is interrupted, run the same
command again.
Earlier key objects stay in the store. With them, a former recipient can still decrypt these backups. To
prevent that, delete the objects keys/<key>.<number>.json with a lower number than the new one.

At the end, the command reads each new key object, and opens it with the private keys that you passed. To
prove that new recipients can read the backup, pass their private keys, too. The command reports key objects
that were written without the key ("planted"), and does not use them. It does the same with keys that no
private key opens, if no snapshot uses them. With --trusted-key, only snapshots of these signers count.

Exit code: 0 done; 3 done, but the store contains planted key objects; 1 the store cannot be read or written,
or a new key object is not as it was written; 2 refused, nothing was written: no private key opens all keys
that snapshots use.
"""

import argparse
from pathlib import Path

from aqueduct.cli import common
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.common.wording import count, some
from aqueduct.errors import ExitCode, Refused, Skipped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_store(parser)
    common.add_private_key(parser)
    for option, required, help_ in (
        (
            "--recipient",
            True,
            "public keys of all recipients that can read the backup from now on; may be repeated",
        ),
        (
            "--manifest-recipient",
            False,
            "public keys of backup hosts, which can read only manifests; may be repeated",
        ),
    ):
        parser.add_argument(
            option, metavar="FILE", type=Path, action="append", default=[], required=required, help=help_
        )
    common.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.store.backends import open_store
        from aqueduct.store.catalog import Catalog
        from aqueduct.store.keyring import Keyring

    if not args.private_key:
        raise Refused("option-required", "Pass the private key of a current recipient with --private-key.")
    recipients, hosts = common.public_keys(args.recipient), common.public_keys(args.manifest_recipient)
    objects, trust = open_store(args.store), common.trust(args)
    keys = Keyring(objects, common.private_keys(args))
    rewrapped = keys.rewrap(recipients, hosts, lambda: Catalog.open(objects, trust, keys).keys_in_use())
    names = some(key.fingerprint.hex() for key in recipients)
    print(f"{rewrapped.wrapped:,} of {count(rewrapped.keys, 'key')} of {args.store} wrapped for {names}.")
    for path in rewrapped.planted:
        reason = (
            "it was written without the key, so no recipient can use it. Find out who can write to the "
            "store, and remove this object"
        )
        print(f"Skipped: {Skipped(path, reason, 'key-object-planted')}.")
    for path in rewrapped.unused:
        reason = (
            "no private key opens it, and no snapshot uses it, so it was not rewrapped. Find out who wrote "
            "it. If a backup with other recipients is running, run this command again after its end"
        )
        print(f"Skipped: {Skipped(path, reason, 'key-object-planted')}.")
    return ExitCode.INCOMPLETE if rewrapped.planted or rewrapped.unused else ExitCode.DONE
