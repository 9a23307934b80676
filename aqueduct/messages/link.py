"""Messages about one-way links."""

from aqueduct.messages.message import Area, DeclaredMessage

LINK = (
    DeclaredMessage(
        id="link-ledger-empty",
        area=Area.LINK,
        meaning="The ledger of a link has no entry, so what is missing is not known.",
        fix="Check that both ends of the link and dedup run. An entry appears with the first record.",
    ),
    DeclaredMessage(
        id="link-topic-not-received",
        area=Area.LINK,
        meaning="Nothing of a topic that `dedup --topics` lists has crossed the link.",
        fix=(
            "Check the name, and the topics of the sending end. A topic that never had a record does not "
            "cross."
        ),
    ),
    DeclaredMessage(
        id="raw-record-misplaced",
        area=Area.LINK,
        meaning=(
            "A record of a raw topic is in another partition than its source partition belongs to. It is not "
            "written. The ledger lists its offsets as missing when the sender has announced them."
        ),
        fix=(
            "Find out which principal wrote the record, and remove its right to write. Send the missing "
            "offsets again with `aqueduct diode resend`."
        ),
    ),
    DeclaredMessage(
        id="raw-position-outdated",
        area=Area.LINK,
        meaning=(
            "A raw topic was re-created or lost the end of its log, so the position of dedup was of other "
            "records. Dedup reads it again, and the ledger skips what arrived before. Frames that the log "
            "lost unread do not arrive."
        ),
        fix=(
            "Find out why the log was truncated, such as an unclean leader election. Send the offsets that "
            "the ledger lists as missing again with `aqueduct diode resend`."
        ),
    ),
    DeclaredMessage(
        id="raw-batch-unreadable",
        area=Area.LINK,
        meaning=(
            "A batch of a raw topic cannot be read, or unpacks to more than the limit. Its records are "
            "counted as malformed and skipped."
        ),
        fix="Find out which principal wrote the batch, and remove its right to write.",
    ),
    DeclaredMessage(
        id="ledger-ids-exceeded",
        area=Area.LINK,
        meaning=(
            "A frame or an announcement has a new topic ID, and the ledger has no room for it. A source"
            " partition has at most 1,000 topic IDs. A partition of the gap topic has at most 100,000 "
            "ids of former topics and of partitions without a clean partition. The frame or "
            "announcement is neither written nor listed as missing."
        ),
        fix=(
            "If the topic was not re-created that often, the sender's key is compromised: give the "
            "sender a new key. Otherwise, create the missing clean topics, or select topics with "
            "`--topics`. Send a topic that has reached its limit under another name."
        ),
    ),
    DeclaredMessage(
        id="raw-record-malformed",
        area=Area.LINK,
        meaning=(
            "A record of a raw topic, or what was received for it, is not of this version of the link's "
            "format."
        ),
        fix=(
            "Check that both ends have the same release. Find out which principal wrote the record, and "
            "remove its right to write."
        ),
    ),
    DeclaredMessage(
        id="raw-records-not-written",
        area=Area.LINK,
        meaning=(
            "The receiving end stopped while Kafka accepted no records, so records that had arrived are not "
            "in the raw topic."
        ),
        fix="Make the brokers available, and send the missing offsets again with `aqueduct diode resend`.",
    ),
    DeclaredMessage(
        id="raw-topic-limit-small",
        area=Area.LINK,
        meaning="The raw topic accepts only records that are smaller than the frames of the link.",
        fix="Set `max.message.bytes` of the raw topic as the message says.",
    ),
    DeclaredMessage(
        id="link-partitions-unequal",
        area=Area.LINK,
        meaning="A raw topic and the gap topic have different numbers of partitions.",
        fix="Create them with the same number of partitions, and do not change it.",
    ),
    DeclaredMessage(
        id="link-partitions-changed",
        area=Area.LINK,
        meaning=(
            "The raw topics and the gap topic got more partitions after records had arrived, so records are "
            "in partitions in which they are not looked for."
        ),
        fix=(
            "Create the raw topics, the gap topic and the clean topics of the link again, with other names, "
            "and send everything again."
        ),
    ),
    DeclaredMessage(
        id="clean-topic-reserved",
        area=Area.LINK,
        meaning="A clean topic is the raw topic or the gap topic of the link.",
        fix="Correct `--topics`.",
    ),
    DeclaredMessage(
        id="clean-topic-times-replaced",
        area=Area.LINK,
        meaning="A clean topic replaces the timestamps of records.",
        fix="Set its `message.timestamp.type` to `CreateTime`.",
    ),
    DeclaredMessage(
        id="gap-topic-not-compacted",
        area=Area.LINK,
        meaning="The gap topic is not only compacted, so brokers would delete the list of missing offsets.",
        fix="Set its `cleanup.policy` to `compact`, with the command that the message shows.",
    ),
    DeclaredMessage(
        id="ledger-entry-invalid",
        area=Area.LINK,
        meaning="The gap topic has a record that is not a ledger entry.",
        fix=(
            "Check the name of the gap topic. Find out which principal wrote the record, and remove its "
            "right to write."
        ),
    ),
    DeclaredMessage(
        id="ledger-topic-unknown",
        area=Area.LINK,
        meaning="The ledger has no entry of the topic to retire.",
        fix="Check the name of the topic and of the gap topic.",
    ),
    DeclaredMessage(
        id="retired-topic-announced",
        area=Area.LINK,
        meaning="The source still has the topic to retire, so the ledger would list it again.",
        fix="Delete the topic at the source, or stop sending it. Then retire it.",
    ),
    DeclaredMessage(
        id="retired-topic-unread",
        area=Area.LINK,
        meaning="Frames of the topic to retire are in the raw topics and not in the clean topic yet.",
        fix="Wait until dedup has written them, and retire the topic then.",
    ),
    DeclaredMessage(
        id="retired-topic-incomplete",
        area=Area.LINK,
        meaning="Offsets of the topic to retire are missing.",
        fix=(
            "Send them again with `aqueduct diode resend`. If the source no longer has them, they are "
            "lost: `--with-gaps` retires the topic, and the ledger no longer lists them."
        ),
    ),
    DeclaredMessage(
        id="bundle-missing",
        area=Area.LINK,
        meaning=(
            "No bundle of a site exists on the control node, so `playbooks/resend.yml` sent nothing from the "
            "site."
        ),
        fix=(
            "Create the bundle at the receiving side with `playbooks/resend.yml`, and copy it to the path "
            "that the message shows."
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
        meaning="A file is not a bundle of missing offsets, or was changed.",
        fix="Make the bundle again with `aqueduct diode create`.",
    ),
    DeclaredMessage(
        id="bundle-mismatch",
        area=Area.LINK,
        meaning=(
            "No missing offset of a bundle can be sent: the link does not send its topics, or they do not "
            "exist in the cluster. The bundle is of another link or cluster, or old."
        ),
        fix=(
            "Pass the bundle of this link, and the `topics` and the `partitionStartValue` of the sending end."
        ),
    ),
    DeclaredMessage(
        id="bundle-partition-uncovered",
        area=Area.LINK,
        meaning=(
            "A bundle lists offsets of partitions that a link does not send. In `playbooks/resend.yml`, no "
            "link of the site sends them."
        ),
        fix=(
            "Send the bundle over the link of these topics, too. If no link sends a topic any more, add it "
            "to the `topics` of a link and deploy both ends, or remove it from the ledger with "
            "`aqueduct dedup --retire`."
        ),
    ),
    DeclaredMessage(
        id="link-state-folder-missing",
        area=Area.LINK,
        meaning="The folder of the receiving end's state does not exist.",
        fix="Create the folder of `stateDir`, and give it to the user of the receiving end.",
    ),
    DeclaredMessage(
        id="link-state-unreadable",
        area=Area.LINK,
        meaning=(
            "The state of a link's receiver cannot be read, or is of another release. Without it, recorded "
            "datagrams could be played again."
        ),
        fix="Run the receiving end as the owner of the file, or restore the file from a copy.",
    ),
    DeclaredMessage(
        id="link-state-mismatch",
        area=Area.LINK,
        meaning="A state file is of another link.",
        fix="Give each link its own `stateDir`.",
    ),
    DeclaredMessage(
        id="link-file-unwritable",
        area=Area.LINK,
        meaning="A key file or the state of a link cannot be written.",
        fix="Check the path, the free space, and the rights of the user.",
    ),
    DeclaredMessage(
        id="key-file-not-created",
        area=Area.LINK,
        meaning=(
            "A pair of keys cannot be created: the folder does not exist, the name cannot be used, or a "
            "file has it."
        ),
        fix=(
            "Pass an existing folder and a new name without `/` and leading dot. Existing keys are never "
            "overwritten."
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
        meaning="The MTU of the network card, or of the route to the receiving end, cannot be read.",
        fix="Check the card and the route, or set `mtu`.",
    ),
    DeclaredMessage(
        id="network-card-unusable",
        area=Area.LINK,
        meaning="The network card of `nic` does not exist, or cannot be used.",
        fix="Correct `nic`. `ip link` lists the cards of the host.",
    ),
    DeclaredMessage(
        id="link-mac-mismatch",
        area=Area.LINK,
        meaning=(
            "No network card of the receiving end has the address to which the sender sends, so nothing "
            "would be received."
        ),
        fix=(
            "Set the address of the card as the message says, or correct `mac` of the link, and deploy both "
            "ends."
        ),
    ),
    DeclaredMessage(
        id="datagram-size-unsuitable",
        area=Area.LINK,
        meaning=(
            "Datagrams are too small for the frames of the link, or too large for UDP or for the MTU of the "
            "network."
        ),
        fix="Change `payloadSize` or `mtu` as the message says.",
    ),
    DeclaredMessage(
        id="clock-wrong",
        area=Area.LINK,
        meaning=(
            "The clock of a sending end is wrong. A receiving end would refuse its sessions, or all later "
            "ones."
        ),
        fix="Set the clock of the host, and start the sending end again.",
    ),
    DeclaredMessage(
        id="erasure-library-missing",
        area=Area.LINK,
        meaning="The library that repairs lost datagrams (ISA-L, by pyeclib) cannot be used.",
        fix="Install the wheel of pyeclib from PyPI, or the Debian package `libisal2`.",
    ),
    DeclaredMessage(
        id="link-public-key-missing",
        area=Area.LINK,
        meaning="The public key of the other end of a link does not exist.",
        fix="Copy it from the control node of the other side, or create it with `aqueduct diode keygen`.",
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
        meaning="The source no longer has some of the missing records.",
        fix="Records that the source has deleted cannot be sent again. Accept the gap in the ledger.",
    ),
    DeclaredMessage(
        id="resend-records-unbundled",
        area=Area.LINK,
        meaning="Missing records are in no bundle that was sent.",
        fix="Create a bundle with the current ledger, and send it.",
    ),
)
