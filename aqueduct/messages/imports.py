"""Messages about imports of backups of other programs."""

from aqueduct.messages.message import Area, DeclaredMessage

IMPORT = (
    DeclaredMessage(
        id="import-source-unknown",
        area=Area.IMPORT,
        meaning=(
            "The location of `--from` does not have a backup of the program and the versions that the "
            "message identifies."
        ),
        fix="Correct `--from` and `--layout`. See the guide for supported versions.",
    ),
    DeclaredMessage(
        id="import-manifest-invalid",
        area=Area.IMPORT,
        meaning=(
            "The backup of the other program lists topics, offsets, files or groups that cannot exist. "
            "Nothing was committed."
        ),
        fix="Find out who changed the backup, and import an undamaged copy.",
    ),
    DeclaredMessage(
        id="import-file-missing",
        area=Area.IMPORT,
        meaning="A file that the backup lists does not exist. Nothing was committed.",
        fix="Copy the file from a copy of the backup.",
    ),
    DeclaredMessage(
        id="import-file-damaged",
        area=Area.IMPORT,
        meaning=(
            "The content of a file is not what the other program writes, or does not match its manifest. "
            "Nothing was committed."
        ),
        fix="Copy the file from a copy of the backup.",
    ),
    DeclaredMessage(
        id="import-file-repeated",
        area=Area.IMPORT,
        meaning="The backup has two files for one offset, so it is unknown which one is right.",
        fix="Find out which file is right, and move the other one away.",
    ),
    DeclaredMessage(
        id="import-store-not-empty",
        area=Area.IMPORT,
        meaning="The store of an import already has snapshots.",
        fix="Pass a new store with `--store`, and restore from it.",
    ),
    DeclaredMessage(
        id="import-source-lacks",
        area=Area.IMPORT,
        meaning="Backups of the other program do not contain this, so the snapshot does not, either.",
        fix="Set what you need after a restore, such as topic settings and ACLs.",
    ),
    DeclaredMessage(
        id="import-offsets-counted",
        area=Area.IMPORT,
        meaning=(
            "The files contain only their last offset, so the offsets of other records were counted from it "
            "and may be too high."
        ),
        fix="None is needed unless an application stores offsets. Compare them with its records.",
    ),
    DeclaredMessage(
        id="import-records-differ",
        area=Area.IMPORT,
        meaning=(
            "Two files have different records at the same offsets. The records of the first file were "
            "imported."
        ),
        fix=(
            "Find out whether the topic was re-created. If so, import the other files into a store of their "
            "own."
        ),
    ),
    DeclaredMessage(
        id="import-offsets-unexplained",
        area=Area.IMPORT,
        meaning="Offsets have no record, and the backup does not tell the reason.",
        fix="Compare with the source, if it still exists. Transactions and compaction leave such gaps.",
    ),
)
