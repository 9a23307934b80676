"""Messages about a backup store, its objects and their keys."""

from aqueduct.messages.message import Area, DeclaredMessage

STORE = (
    DeclaredMessage(
        id="snapshot-times-disagree",
        area=Area.STORE,
        meaning=(
            "The time in the manifest of a snapshot is more than one day before the time that the store"
            " recorded. The store was copied, a clock was wrong, or an attacker wrote the snapshot. "
            "Neither `aqueduct prune` nor `--keep` of backups of ZooKeeper and quorums removes it."
        ),
        fix=(
            "If the store was copied, run `aqueduct prune` with `--copied-through` and the number "
            "of the last copied snapshot. Otherwise, check which users have write access to the "
            "store. You can delete a snapshot of ZooKeeper or a quorum yourself if you know that "
            "it is correct and do not need it."
        ),
    ),
    DeclaredMessage(
        id="snapshot-time-backwards",
        area=Area.STORE,
        meaning=(
            "The manifest of a snapshot has an earlier time than a previous manifest. Nothing was "
            "removed by `aqueduct prune`, or by `--keep` of a backup of ZooKeeper or a quorum."
        ),
        fix=(
            "Check which host wrote the snapshot. If the clock of this host was wrong, run `aqueduct prune "
            "--wrong-clock` with the number of the snapshot. Prune then keeps this snapshot."
        ),
    ),
    DeclaredMessage(
        id="newest-snapshot-smaller",
        area=Area.STORE,
        meaning=(
            "The newest snapshot has less than half of the data of a topic that prune would remove. Prune "
            "removed nothing."
        ),
        fix=(
            "Check the newest snapshot. If the topic was deleted or emptied on purpose, pass "
            "`--allow-less`: prune then removes the older data of the topic, which cannot be restored "
            "afterwards."
        ),
    ),
    DeclaredMessage(
        id="snapshot-far-less",
        area=Area.STORE,
        meaning=(
            "A snapshot of a quorum has less than half of the topics of the snapshot before. It was kept, "
            "and no larger one was removed."
        ),
        fix=(
            "Check whether the topics were deleted on purpose. If not, find out who deleted them, and keep "
            "the earlier snapshot."
        ),
    ),
    DeclaredMessage(
        id="remaining-snapshot-damaged",
        area=Area.STORE,
        meaning=(
            "Prune read a sample of the segments of the snapshots that would remain. An object is missing, "
            "is damaged, or differs from the manifest. Without `--past-damage`, prune removed nothing."
        ),
        fix=(
            "Check which users have write access to the store, and copy the object from a copy of the "
            "store. If the object is permanently lost, pass `--past-damage`: prune then removes older "
            "snapshots, which cannot be restored afterwards."
        ),
    ),
    DeclaredMessage(
        id="recipients-too-many",
        area=Area.STORE,
        meaning="The backup would be encrypted for more recipients than the limit. Nothing was written.",
        fix="Pass fewer public keys. Several operators can share one private key.",
    ),
    DeclaredMessage(
        id="key-object-planted",
        area=Area.STORE,
        meaning=(
            "An object in `keys/` has the name of a key, but another program wrote the object without this "
            "key. Or no passed private key decrypts the object, and no snapshot uses it. The object is "
            "ignored."
        ),
        fix="Check which users have write access to the store, and move the object out of the store.",
    ),
    DeclaredMessage(
        id="key-not-rewrapped",
        area=Area.STORE,
        meaning=(
            "After `aqueduct rewrap`, the object of a key is not the object that the command wrote. The "
            "former recipients can still decrypt the key."
        ),
        fix="Check which other programs or users write to `keys/`, and run `aqueduct rewrap` again.",
    ),
    DeclaredMessage(
        id="store-url-invalid",
        area=Area.STORE,
        meaning="The URL of the store is incomplete, contains secrets, or has an unknown scheme.",
        fix=(
            "Write `s3://bucket/prefix`, `gs://`, `az://`, `hdfs://host:port/directory` or "
            "`file:///directory`."
        ),
    ),
    DeclaredMessage(
        id="store-settings-invalid",
        area=Area.STORE,
        meaning=("Settings of the object store's client, such as its endpoint or CA bundle, cannot be used."),
        fix="Correct the setting that the message identifies.",
    ),
    DeclaredMessage(
        id="store-credentials-missing",
        area=Area.STORE,
        meaning="No credentials for the object store were found.",
        fix="Set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or `AWS_PROFILE`.",
    ),
    DeclaredMessage(
        id="store-access-refused",
        area=Area.STORE,
        meaning=(
            "The store rejected the client. The credentials, the rights or the clock of the client are "
            "wrong, or the bucket or the certificate is wrong."
        ),
        fix="Correct the cause in the message, and run the command again.",
    ),
    DeclaredMessage(
        id="store-request-failed",
        area=Area.STORE,
        meaning="The store did not answer a request, or answered with an error.",
        fix="Check the store and the network, and run the command again.",
    ),
    DeclaredMessage(
        id="store-endpoint-wrong",
        area=Area.STORE,
        meaning=(
            "The endpoint is not an object store. It is a web console, a proxy or another service, or it "
            "redirects requests."
        ),
        fix="Set `AWS_ENDPOINT_URL` to the address of the object store, and check `AWS_REGION`.",
    ),
    DeclaredMessage(
        id="store-write-unsupported",
        area=Area.STORE,
        meaning=(
            "The object store does not support conditional writes. Every command that writes to a store "
            "needs them."
        ),
        fix="Use an object store that supports `If-None-Match` for PUT requests.",
    ),
    DeclaredMessage(
        id="bucket-unusable",
        area=Area.STORE,
        meaning=(
            "A bucket cannot be created or changed. Another user owns the bucket, its name is not valid, or "
            "object lock cannot be enabled for the bucket."
        ),
        fix="Declare a bucket with another name.",
    ),
    DeclaredMessage(
        id="lifecycle-unsupported",
        area=Area.STORE,
        meaning="The store or its server does not support lifecycle rules.",
        fix=(
            "Run the command without `--lifecycle-days`, or remove `backup_lifecycle`. Remove old snapshots "
            "with `aqueduct prune` or `backup_prune_keep`."
        ),
    ),
    DeclaredMessage(
        id="lifecycle-rules-exceeded",
        area=Area.STORE,
        meaning="The topics would need more lifecycle rules than an S3 bucket can have.",
        fix=(
            "Choose fewer topics with `--lifecycle-topics-pattern`, or remove old snapshots with `aqueduct "
            "prune`."
        ),
    ),
    DeclaredMessage(
        id="lifecycle-rule-overlaps",
        area=Area.STORE,
        meaning=(
            "A lifecycle rule of the bucket deletes objects of this store, and Aqueduct did not create this "
            "rule. Snapshots will lack these objects."
        ),
        fix="Limit the lifecycle rule to a prefix outside the store.",
    ),
    DeclaredMessage(
        id="store-directory-missing",
        area=Area.STORE,
        meaning="The parent directory of a `file://` store does not exist.",
        fix="Create the directory, or mount the file system.",
    ),
    DeclaredMessage(
        id="store-differs-on-worker",
        area=Area.STORE,
        meaning="A Spark worker and the Spark driver use different stores under the same URL.",
        fix="Mount the same directory on all workers, or set `AWS_ENDPOINT_URL` for the driver.",
    ),
    DeclaredMessage(
        id="store-not-readable-on-worker",
        area=Area.STORE,
        meaning="A Spark worker cannot read the `file://` store.",
        fix=("Mount the store on the worker, and give the user of the tasks the right to read and write it."),
    ),
    DeclaredMessage(
        id="store-identity-damaged",
        area=Area.STORE,
        meaning="`store.json`, which identifies the store, is damaged or missing.",
        fix="Write the content that the message shows, or copy the file from a copy of the store.",
    ),
    DeclaredMessage(
        id="store-format-unsupported",
        area=Area.STORE,
        meaning="A newer version of Aqueduct wrote the object.",
        fix="Update Aqueduct.",
    ),
    DeclaredMessage(
        id="backup-missing",
        area=Area.STORE,
        meaning="The store does not contain a backup.",
        fix="Check the URL of the store.",
    ),
    DeclaredMessage(
        id="snapshot-missing",
        area=Area.STORE,
        meaning="The store does not contain the snapshot.",
        fix="Run `aqueduct snapshots --store URL` to list the snapshots.",
    ),
    DeclaredMessage(
        id="snapshot-removed",
        area=Area.STORE,
        meaning="The snapshot was removed from the store while the command ran.",
        fix=("Run `aqueduct snapshots --store URL`, and pass one of the listed snapshots with `--snapshot`."),
    ),
    DeclaredMessage(
        id="snapshot-leased",
        area=Area.STORE,
        meaning=(
            "Prune would remove a snapshot, but a restore, an export or a comparison reads this snapshot. "
            "Prune kept the snapshot."
        ),
        fix=(
            "Run `aqueduct prune` again when the restore, the export or the comparison has ended. If its "
            "process was killed, the snapshot stays protected for three hours."
        ),
    ),
    DeclaredMessage(
        id="restores-use-pruned-snapshots",
        area=Area.STORE,
        meaning=(
            "Restores began to read snapshots while prune removed these snapshots. Prune removed no "
            "other objects."
        ),
        fix="Run `aqueduct prune` again when the restores have ended.",
    ),
    DeclaredMessage(
        id="snapshots-changing",
        area=Area.STORE,
        meaning="The list of snapshots changed while prune read the store. Nothing was removed.",
        fix="Run `aqueduct prune` again when other runs of `aqueduct prune` have ended.",
    ),
    DeclaredMessage(
        id="snapshot-not-readable-again",
        area=Area.STORE,
        meaning=(
            "A snapshot of ZooKeeper or a quorum was not written, because a test read of the snapshot "
            "returned other data."
        ),
        fix=(
            "Run the command again, or use another server. If the command fails again, report the message "
            "as a fault of Aqueduct."
        ),
    ),
    DeclaredMessage(
        id="manifest-too-large",
        area=Area.STORE,
        meaning=(
            "The manifest of a new snapshot would be larger than the limit for reading. The snapshot was "
            "not committed."
        ),
        fix="Back up to a new store with a larger `--segment-bytes`.",
    ),
    DeclaredMessage(
        id="snapshot-too-old",
        area=Area.STORE,
        meaning=(
            "The newest snapshot is older than `--at-least` requires, so newer snapshots were removed from "
            "the store."
        ),
        fix=(
            "Check which users can delete objects in the store, and copy the newer snapshots from a "
            "copy of the store."
        ),
    ),
    DeclaredMessage(
        id="snapshot-unusable",
        area=Area.STORE,
        meaning=(
            "The manifest of the snapshot, or of a snapshot on which it depends, is damaged, missing or "
            "from another store. Or a snapshot of ZooKeeper or a quorum is damaged, or no trusted key has "
            "signed it."
        ),
        fix=(
            "Copy the object from a copy of the store, or pass an older, undamaged snapshot with "
            "`--snapshot`."
        ),
    ),
    DeclaredMessage(
        id="snapshot-not-trusted",
        area=Area.STORE,
        meaning="No trusted key has signed the snapshot.",
        fix=(
            "Do not restore the snapshot unless you know which host or person wrote it. If you do, pass the "
            "public key of the signer with `--trusted-key`, or the number of the first signed snapshot with "
            "`--unsigned-before`."
        ),
    ),
    DeclaredMessage(
        id="snapshot-forged",
        area=Area.STORE,
        meaning="An object has the name of a snapshot, but no backup wrote this object.",
        fix=(
            "Check which users have write access to the store, move the object out of the store, "
            "and run the command again."
        ),
    ),
    DeclaredMessage(
        id="checksum-mismatch",
        area=Area.STORE,
        meaning=("The size or the SHA-256 of an object differs from the manifest: the object is damaged."),
        fix=(
            "Run `aqueduct verify --store URL --snapshot N` for older snapshots (`aqueduct snapshots` lists "
            "them), and restore the newest undamaged one with `--snapshot N`."
        ),
    ),
    DeclaredMessage(
        id="object-missing",
        area=Area.STORE,
        meaning="An object of a snapshot is not in the store.",
        fix=("Copy the object from a copy of the store, or restore another snapshot with `--snapshot`."),
    ),
    DeclaredMessage(
        id="object-exists",
        area=Area.STORE,
        meaning="The store already contains another object with this name.",
        fix="Check that no other program writes to the store.",
    ),
    DeclaredMessage(
        id="object-too-large",
        area=Area.STORE,
        meaning=(
            "An object of a store, a lake, an export or a backup of another program is larger than the "
            "limit for its kind. The object was not read."
        ),
        fix="Check which program wrote the object, and restore the object from a copy.",
    ),
    DeclaredMessage(
        id="object-damaged",
        area=Area.STORE,
        meaning="The content of an object does not have a format that Aqueduct writes.",
        fix=(
            "Copy the object from a copy of the store. Or run `aqueduct verify --store URL --snapshot N` for "
            "older snapshots, and restore an undamaged one."
        ),
    ),
    DeclaredMessage(
        id="decryption-key-missing",
        area=Area.STORE,
        meaning="The backup is encrypted, and no passed private key can decrypt it.",
        fix="Pass the private key of a recipient with `--private-key`.",
    ),
    DeclaredMessage(
        id="records-not-opened",
        area=Area.STORE,
        meaning=(
            "`aqueduct verify` compared only the digests of encrypted objects, because no passed private "
            "key decrypts these objects. The records were not checked."
        ),
        fix=(
            "Pass the private key of a recipient with `--private-key`. If this host must not have the "
            "private key, pass `--digests-only`."
        ),
    ),
    DeclaredMessage(
        id="snapshot-not-leased",
        area=Area.STORE,
        meaning=(
            "The store did not accept the object that protects a snapshot from pruning while the command "
            "reads it."
        ),
        fix=(
            "Do not prune the store while the command runs, or grant the credentials of the command the "
            "right to create objects."
        ),
    ),
    DeclaredMessage(
        id="bucket-shared-by-sites",
        area=Area.STORE,
        meaning=(
            "Two sites use one bucket of the estate's own object store, and a user of one site has rights to "
            "the objects of the other."
        ),
        fix=(
            "Give each site a prefix policy: in `object_store_buckets`, move the users to `prefixes`, each "
            "below the prefix of its site."
        ),
    ),
    DeclaredMessage(
        id="access-key-shared-by-sites",
        area=Area.STORE,
        meaning=(
            "The inventory gives two sites the same access key of an object store outside the estate. An "
            "attacker who controls a host of one site can read and replace the data of the other site."
        ),
        fix=(
            "Create an access key for each site, with rights to the prefix of that site only, and set it in "
            "the variables of the site, such as `backup_environment`."
        ),
    ),
    DeclaredMessage(
        id="drill-reads-other-sites",
        area=Area.STORE,
        meaning=(
            "A drill has rights to data of other sites in a bucket of the estate's own object "
            "store, although it does not restore their backups."
        ),
        fix=(
            "In `object_store_buckets`, move `drill-<site>` to `prefixes`, under `read` of each site whose "
            "backup the drill restores."
        ),
    ),
)
