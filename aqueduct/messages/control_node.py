"""Messages about software and certificates on the control node."""

from aqueduct.messages.message import Area, DeclaredMessage

CONTROL_NODE = (
    DeclaredMessage(
        id="distribution-unsupported",
        area=Area.CONTROL_NODE,
        meaning="A host of the inventory has no `apt`, from which Aqueduct installs packages. The RPM family "
        "is not supported.",
        fix="Use a host with Debian 12 or 13.",
    ),
    DeclaredMessage(
        id="artifact-digest-unknown",
        area=Area.CONTROL_NODE,
        meaning="No lock file has the SHA-256 of software that is to be installed.",
        fix="Use a version that `artifacts/` lists, or add the digest.",
    ),
    DeclaredMessage(
        id="artifact-digest-mismatch",
        area=Area.CONTROL_NODE,
        meaning="Downloaded or cached software does not have the expected SHA-256. Nothing was installed.",
        fix=(
            "Find out who changed the file or the digest. Move a wrong file out of the cache, and run the "
            "command again."
        ),
    ),
    DeclaredMessage(
        id="artifact-unavailable",
        area=Area.CONTROL_NODE,
        meaning="Software could not be downloaded or built.",
        fix="Correct the reason in the message, and check that the control node reaches the source.",
    ),
    DeclaredMessage(
        id="artifact-content-wrong",
        area=Area.CONTROL_NODE,
        meaning="A downloaded archive does not contain the expected file.",
        fix="Correct the variable in the message.",
    ),
    DeclaredMessage(
        id="maven-missing",
        area=Area.CONTROL_NODE,
        meaning="Maven is not installed on the control node.",
        fix="Run `apt-get install maven`, or declare a URL.",
    ),
    DeclaredMessage(
        id="maven-coordinates-invalid",
        area=Area.CONTROL_NODE,
        meaning="Software is declared by Maven coordinates of a wrong form.",
        fix="Write `group:artifact:version[:type[:classifier]]`.",
    ),
    DeclaredMessage(
        id="authority-missing",
        area=Area.CONTROL_NODE,
        meaning="The control node does not have the estate's certificate authority.",
        fix=(
            "Run `playbooks/hosts.yml` without `--tags`. If the authority is on another control node, run it "
            "there."
        ),
    ),
    DeclaredMessage(
        id="authority-step-early",
        area=Area.CONTROL_NODE,
        meaning=(
            "A step of replacing the certificate authority was run too early, or again after the end. "
            "Nothing was changed."
        ),
        fix="Run the step that the message identifies.",
    ),
    DeclaredMessage(
        id="private-key-unsupported",
        area=Area.CONTROL_NODE,
        meaning="A private key on the control node is not a key of an elliptic curve.",
        fix="Move the file away. The next run creates another key.",
    ),
    DeclaredMessage(
        id="public-key-invalid",
        area=Area.CONTROL_NODE,
        meaning="A host sent something other than a public key on the curve P-256, so nothing was signed.",
        fix="Check the host: its software may be old, or another program changed the file.",
    ),
)
