"""Messages of certificates that are provided from outside."""

from aqueduct.messages.message import Area, DeclaredMessage

CERTIFICATES = (
    DeclaredMessage(
        id="provided-certificate-missing",
        area=Area.CERTIFICATES,
        meaning="The folder of provided certificates lacks the file of a principal, or `ca.pem`.",
        fix="Put the file there. That of a principal has its private key and its certificate chain.",
    ),
    DeclaredMessage(
        id="provided-certificate-unusable",
        area=Area.CERTIFICATES,
        meaning=(
            "A provided file cannot serve its principal: it is damaged or out of date, of another principal "
            "or another authority, or its key does not fit."
        ),
        fix="Provide another file. The message says what is wrong with this one.",
    ),
    DeclaredMessage(
        id="provided-certificate-usages",
        area=Area.CERTIFICATES,
        meaning=(
            "The extended key usages of a provided certificate do not fit its service. A service that "
            "accepts connections needs `serverAuth` and `clientAuth`, or no such extension. All others need "
            "`clientAuth` without `serverAuth`."
        ),
        fix="Provide a certificate with the usages in the message.",
    ),
    DeclaredMessage(
        id="provided-certificate-names",
        area=Area.CERTIFICATES,
        meaning=(
            "A provided certificate lacks a name under which others reach its service, or it is valid for "
            "a host of the inventory that does not run this service."
        ),
        fix="Provide a certificate with the names of the service's own hosts, without those of other hosts.",
    ),
)
