"""Messages about one-way links."""

from aqueduct.messages.message import Area, DeclaredMessage

LINK = (
    DeclaredMessage(
        id="link-ledger-empty",
        area=Area.LINK,
        meaning="The ledger of a link has no entry, so it is unknown which offsets are missing.",
        fix=(
            "Check that both ends of the link and dedup run. Dedup writes the first entry when the first "
            "record arrives."
        ),
    ),
    DeclaredMessage(
        id="link-topic-not-received",
        area=Area.LINK,
        meaning="No record of a topic in `dedup --topics` has arrived over the link.",
        fix=(
            "Check the name, and the topics of the sending end. The link does not send a topic that never "
            "had a record."
        ),
    ),
    DeclaredMessage(
        id="raw-record-misplaced",
        area=Area.LINK,
        meaning=(
            "A record of a raw topic is in the wrong partition: its source partition belongs to another "
            "partition of the raw topic. Dedup does not write the record. When the sender has announced the "
            "offsets of the record, the ledger lists them as missing."
        ),
        fix=(
            "Find out which principal wrote the record, and revoke its `Write` permission. Send the missing "
            "offsets again with `aqueduct diode resend`."
        ),
    ),
    DeclaredMessage(
        id="raw-position-outdated",
        area=Area.LINK,
        meaning=(
            "A raw topic was re-created or its log was truncated, so the position of dedup does not fit the "
            "log. Dedup reads the raw topic again. The ledger prevents duplicates of records that arrived "
            "before. Unread frames that the log lost do not arrive."
        ),
        fix=(
            "Find out why the log was truncated, for example by an unclean leader election. The ledger "
            "lists the missing offsets. Send these offsets again with `aqueduct diode resend`."
        ),
    ),
    DeclaredMessage(
        id="raw-batch-unreadable",
        area=Area.LINK,
        meaning=(
            "A batch of a raw topic cannot be read, or is larger than the limit after decompression. Dedup "
            "counts the records of the batch as malformed and skips them."
        ),
        fix="Find out which principal wrote the batch, and revoke its `Write` permission.",
    ),
    DeclaredMessage(
        id="ledger-ids-exceeded",
        area=Area.LINK,
        meaning=(
            "A frame or an announcement contains a new topic ID, and the ledger has reached its limit of "
            "topic IDs. The limit of a source partition is 1,000 topic IDs. The limit of a partition of the "
            "gap topic is 100,000 topic IDs of former topics and of partitions without a clean partition. "
            "Dedup does not write the frame or the announcement, and the ledger does not list it as missing."
        ),
        fix=(
            "If the topic was not re-created that often, the private key of the sender may be compromised: "
            "create a new key for the sender. Otherwise, create the missing clean topics, or select topics "
            "with `--topics`. If a topic has reached its limit, send the records under another topic name."
        ),
    ),
    DeclaredMessage(
        id="raw-record-malformed",
        area=Area.LINK,
        meaning=(
            "A record of a raw topic, or received data for a raw topic, does not have the link format of "
            "this release."
        ),
        fix=(
            "Check that both ends have the same release. Find out which principal wrote the record, and "
            "revoke its `Write` permission."
        ),
    ),
    DeclaredMessage(
        id="raw-records-not-written",
        area=Area.LINK,
        meaning=(
            "The receiving end stopped while Kafka did not accept records. Records that had arrived are not "
            "in the raw topic."
        ),
        fix="Start the brokers. Send the missing offsets again with `aqueduct diode resend`.",
    ),
    DeclaredMessage(
        id="raw-topic-limit-small",
        area=Area.LINK,
        meaning="`max.message.bytes` of the raw topic is smaller than the largest frame of the link.",
        fix="Set `max.message.bytes` of the raw topic to the value in the message.",
    ),
    DeclaredMessage(
        id="link-partitions-unequal",
        area=Area.LINK,
        meaning=(
            "The number of partitions of a raw topic differs from the number of partitions of the gap topic."
        ),
        fix="Create both topics with the same number of partitions. Do not change this number later.",
    ),
    DeclaredMessage(
        id="link-partitions-changed",
        area=Area.LINK,
        meaning=(
            "Partitions were added to the raw topics and the gap topic after records had arrived. Dedup "
            "does not find the earlier records in the partitions in which it expects them."
        ),
        fix=(
            "Create new raw topics, a new gap topic and new clean topics for the link, with other names. "
            "Then send all records again."
        ),
    ),
    DeclaredMessage(
        id="clean-topic-reserved",
        area=Area.LINK,
        meaning="`--topics` lists the raw topic or the gap topic of the link as a clean topic.",
        fix="Remove this topic from `--topics`.",
    ),
    DeclaredMessage(
        id="clean-topic-times-replaced",
        area=Area.LINK,
        meaning=(
            "A clean topic would replace the timestamps of records, because its `message.timestamp.type` "
            "is `LogAppendTime`."
        ),
        fix="Set `message.timestamp.type` of the clean topic to `CreateTime`.",
    ),
    DeclaredMessage(
        id="gap-topic-not-compacted",
        area=Area.LINK,
        meaning=(
            "`cleanup.policy` of the gap topic is not `compact`, so brokers would delete the list of "
            "missing offsets."
        ),
        fix="Set `cleanup.policy` of the gap topic to `compact` with the command in the message.",
    ),
    DeclaredMessage(
        id="ledger-entry-invalid",
        area=Area.LINK,
        meaning="The gap topic contains a record that is not a ledger entry.",
        fix=(
            "Check the name of the gap topic. Find out which principal wrote the record, and revoke its "
            "`Write` permission."
        ),
    ),
    DeclaredMessage(
        id="ledger-topic-unknown",
        area=Area.LINK,
        meaning="The ledger has no entry of the topic in `--retire`.",
        fix="Check the name of the topic and of the gap topic.",
    ),
    DeclaredMessage(
        id="retired-topic-announced",
        area=Area.LINK,
        meaning="The source still has the topic in `--retire`, so the ledger would list the topic again.",
        fix="Delete the topic at the source, or remove the topic from the link. Then run the command again.",
    ),
    DeclaredMessage(
        id="retired-topic-unread",
        area=Area.LINK,
        meaning=(
            "The raw topics contain frames of the topic in `--retire`, and dedup has not written them to "
            "the clean topic yet."
        ),
        fix="Wait until dedup has written the frames. Then run the command again.",
    ),
    DeclaredMessage(
        id="retired-topic-incomplete",
        area=Area.LINK,
        meaning="Offsets of the topic in `--retire` are missing.",
        fix=(
            "Send the missing offsets again with `aqueduct diode resend`. If the source no longer has these "
            "records, the records are lost. In this case, pass `--with-gaps`, which removes the missing "
            "offsets from the ledger."
        ),
    ),
    DeclaredMessage(
        id="bundle-missing",
        area=Area.LINK,
        meaning=(
            "The control node has no bundle of a site, so `playbooks/resend.yml` sent no records from this "
            "site."
        ),
        fix=(
            "Create the bundle at the receiving side with `playbooks/resend.yml`. Copy the bundle to the "
            "path in the message."
        ),
    ),
    DeclaredMessage(
        id="bundle-unreadable",
        area=Area.LINK,
        meaning="The file of a bundle cannot be read.",
        fix="Check the path, and run the command as a user who can read the file.",
    ),
    DeclaredMessage(
        id="bundle-invalid",
        area=Area.LINK,
        meaning="A file is not a bundle of missing offsets, or the bundle was changed.",
        fix="Create the bundle again with `aqueduct diode create`.",
    ),
    DeclaredMessage(
        id="bundle-mismatch",
        area=Area.LINK,
        meaning=(
            "No offset of the bundle can be sent, because the link does not send the topics of the bundle, "
            "or because the topics do not exist in the cluster. The bundle may be old, or may belong to "
            "another link or cluster."
        ),
        fix=("Pass the bundle of this link. Check `topics` and `partitionStartValue` of the sending end."),
    ),
    DeclaredMessage(
        id="bundle-partition-uncovered",
        area=Area.LINK,
        meaning=(
            "A bundle lists offsets of partitions that the link does not send. In `playbooks/resend.yml`, "
            "no link of the site sends these partitions."
        ),
        fix=(
            "Send the bundle also over the link that sends these topics. If no link sends a topic any more, "
            "add the topic to `topics` of a link and deploy both ends, or remove the topic from the ledger "
            "with `aqueduct dedup --retire`."
        ),
    ),
    DeclaredMessage(
        id="link-state-folder-missing",
        area=Area.LINK,
        meaning="The folder of `stateDir` for the state of the receiving end does not exist.",
        fix="Create the folder. Make the user of the receiving end its owner.",
    ),
    DeclaredMessage(
        id="link-state-unreadable",
        area=Area.LINK,
        meaning=(
            "The state file of the receiving end cannot be read, or another release wrote it. Without the "
            "state, the receiving end would accept recorded datagrams again."
        ),
        fix="Run the receiving end as the owner of the state file, or restore the state file from a copy.",
    ),
    DeclaredMessage(
        id="link-state-mismatch",
        area=Area.LINK,
        meaning="A state file belongs to another link.",
        fix="Set a separate `stateDir` for each link.",
    ),
    DeclaredMessage(
        id="link-file-unwritable",
        area=Area.LINK,
        meaning="A key file or the state file of a link cannot be written.",
        fix="Check the path, the free space, and the rights of the user.",
    ),
    DeclaredMessage(
        id="key-file-not-created",
        area=Area.LINK,
        meaning=(
            "A key pair cannot be created: the folder does not exist, the name is not allowed, or a file "
            "with this name exists."
        ),
        fix=(
            "Pass an existing folder, and a new name without `/` and without a dot at the beginning. The "
            "command never overwrites existing keys."
        ),
    ),
    DeclaredMessage(
        id="filter-rules-invalid",
        area=Area.LINK,
        meaning="Rules of `inputFilterRules` cannot be used, or their file cannot be read.",
        fix="Write `allow:REGEX` or `deny:REGEX`, or the path of a readable file with one rule on each line.",
    ),
    DeclaredMessage(
        id="link-address-unusable",
        area=Area.LINK,
        meaning=(
            "The host of `targetIP` has no address, or the receiving end cannot bind its address or port."
        ),
        fix="Check the address and the port, and whether another process uses them.",
    ),
    DeclaredMessage(
        id="link-mtu-unknown",
        area=Area.LINK,
        meaning="The MTU of the network interface, or of the route to the receiving end, cannot be read.",
        fix="Check the network interface and the route, or set `mtu`.",
    ),
    DeclaredMessage(
        id="network-card-unusable",
        area=Area.LINK,
        meaning="The network interface of `nic` does not exist, or cannot be used.",
        fix="Correct `nic`. `ip link` lists the network interfaces of the host.",
    ),
    DeclaredMessage(
        id="link-mac-mismatch",
        area=Area.LINK,
        meaning=(
            "No network interface of the receiving end has the MAC address to which the sender sends, so "
            "the receiving end would receive no datagrams."
        ),
        fix=(
            "Set the MAC address of the network interface to the address in the message, or correct `mac` "
            "of the link and deploy both ends."
        ),
    ),
    DeclaredMessage(
        id="datagram-size-unsuitable",
        area=Area.LINK,
        meaning=("Datagrams are too small for the link, or too large for UDP or for the MTU of the network."),
        fix="Change `payloadSize` or `mtu` as the message describes.",
    ),
    DeclaredMessage(
        id="clock-wrong",
        area=Area.LINK,
        meaning=(
            "The clock of the sending end is wrong. The receiving end would reject this session or later "
            "sessions of the sending end."
        ),
        fix="Set the clock of the host. Then start the sending end again.",
    ),
    DeclaredMessage(
        id="erasure-library-missing",
        area=Area.LINK,
        meaning="The library that restores lost datagrams (ISA-L, loaded by pyeclib) cannot be used.",
        fix="Install the pyeclib wheel from PyPI, or install the Debian package `libisal2`.",
    ),
    DeclaredMessage(
        id="link-public-key-missing",
        area=Area.LINK,
        meaning="The public key file of the other end of a link does not exist.",
        fix=(
            "Copy the public key from the control node of the other side. If no key pair exists yet, "
            "create one with `aqueduct diode keygen`."
        ),
    ),
    DeclaredMessage(
        id="link-mtu-too-small",
        area=Area.LINK,
        meaning="The network interface has a smaller MTU than the link needs.",
        fix="Configure the network interface, or reduce `mtu` in `diode_downstream_links`.",
    ),
    DeclaredMessage(
        id="resend-records-gone",
        area=Area.LINK,
        meaning="The source has deleted some of the missing records.",
        fix="Accept the gap in the ledger. Deleted records cannot be sent again.",
    ),
    DeclaredMessage(
        id="resend-records-unbundled",
        area=Area.LINK,
        meaning="Some missing records are not in any bundle that was sent.",
        fix="Create a new bundle from the current ledger, and send the records of this bundle.",
    ),
)
