"""Messages of certificates that are provided from outside."""

from aqueduct.messages.message import Area, DeclaredMessage

CERTIFICATES = (
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
