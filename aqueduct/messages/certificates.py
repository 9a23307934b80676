"""Messages of certificates that are provided from outside."""

from aqueduct.messages.message import Area, DeclaredMessage

CERTIFICATES = (
    DeclaredMessage(
        id="provided-certificate-missing",
        area=Area.CERTIFICATES,
        meaning="The folder of provided certificates lacks the file of a principal, or `ca.pem`.",
        fix=(
            "Put the file into the folder. The file of a principal contains its private key and its "
            "certificate chain."
        ),
    ),
    DeclaredMessage(
        id="provided-certificate-unusable",
        area=Area.CERTIFICATES,
        meaning=(
            "A provided file cannot be used for its principal. The file is damaged or expired, belongs to "
            "another principal or another certificate authority, or its key does not match its certificate."
        ),
        fix="Provide another file. The message shows the fault of the present file.",
    ),
    DeclaredMessage(
        id="provided-certificate-usages",
        area=Area.CERTIFICATES,
        meaning=(
            "The extended key usages of a provided certificate are not suitable for its service. A service "
            "that accepts connections needs `serverAuth` and `clientAuth`, or no extended key usage. All "
            "other services need `clientAuth` without `serverAuth`."
        ),
        fix="Provide a certificate with the extended key usages in the message.",
    ),
    DeclaredMessage(
        id="provided-certificate-names",
        area=Area.CERTIFICATES,
        meaning=(
            "A provided certificate lacks a host name under which clients reach its service, or the "
            "certificate is valid for a host of the inventory that does not run this service."
        ),
        fix=(
            "Provide a certificate with the names of the hosts that run the service, and without the "
            "names of other hosts."
        ),
    ),
)
