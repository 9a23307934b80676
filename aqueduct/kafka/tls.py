"""How TLS is spoken to servers that no client of Kafka's asks: REST, schema registries, ZooKeeper."""

import ssl

from aqueduct.common import job_files
from aqueduct.errors import Refused
from aqueduct.kafka.client_config import ClientConfig


def tls_context(config: ClientConfig) -> ssl.SSLContext:
    """Return how it is spoken, in a job's task, too; Refused if certificate and key are of no use."""
    context = ssl.create_default_context(cafile=config.ca and job_files.path(config.ca))
    context.check_hostname = config.verify_host
    if config.certificate and config.key:
        try:
            files = job_files.path(config.certificate), job_files.path(config.key)
            context.load_cert_chain(*files, config.key_password or "")
        except (ssl.SSLError, OSError) as error:
            raise Refused(
                "client-key-mismatch",
                f"{config.certificate} cannot be used ({error.strerror or error}). Check that the key "
                "matches the certificate, and that ssl.key.password is correct.",
            ) from None
    return context
