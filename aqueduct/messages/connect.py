"""Messages about Kafka Connect."""

from aqueduct.messages.message import Area, DeclaredMessage

CONNECT = (
    DeclaredMessage(
        id="connect-store-not-opened",
        area=Area.CONNECT,
        meaning=(
            "A key or trust store of the worker could not be opened, because its password is not available "
            "on this host or `keytool` is not installed. Its certificates were not checked."
        ),
        fix=(
            "Run the command on the worker's host, as the user of the worker. To accept unknown results, "
            "pass `--allow-unknown`."
        ),
    ),
    DeclaredMessage(
        id="connect-broker-away",
        area=Area.CONNECT,
        meaning="No broker answers at this address, so it is unknown whether its listener requires TLS.",
        fix=(
            "Start the broker, or correct the address. To skip this check, pass `--no-probe`. To accept "
            "unknown results, pass `--allow-unknown`."
        ),
    ),
    DeclaredMessage(
        id="connect-topics-unknown",
        area=Area.CONNECT,
        meaning="It is unknown whether the topics of a sink exist, for the reason in the message.",
        fix=(
            "Check the topics by hand, or correct the reason. To accept unknown results, pass "
            "`--allow-unknown`."
        ),
    ),
    DeclaredMessage(
        id="connect-clients-unsafe",
        area=Area.CONNECT,
        meaning=(
            "The worker's clients, or those of its connectors, would connect without TLS or with unsuitable "
            "certificates. No connector was changed."
        ),
        fix="Correct all settings that the message lists.",
    ),
    DeclaredMessage(
        id="connector-file-forbidden",
        area=Area.CONNECT,
        meaning="A connector reads or writes files that it may not. No connector was changed.",
        fix="Use files of the folders in the message, or allow another folder in the inventory.",
    ),
    DeclaredMessage(
        id="connector-config-invalid",
        area=Area.CONNECT,
        meaning="The configuration of a connector is incomplete, contradictory, or not an object.",
        fix="Correct the configuration that the message identifies.",
    ),
    DeclaredMessage(
        id="connector-setting-unknown",
        area=Area.CONNECT,
        meaning=(
            "A connector has a setting that neither Connect nor its plugin declares, such as a misspelt one "
            "or one of another version. The connector is deployed with it. Connect ignores it."
        ),
        fix="Correct the name of the setting, or remove the setting.",
    ),
    DeclaredMessage(
        id="connector-missing",
        area=Area.CONNECT,
        meaning="A connector is declared without a configuration, and does not exist.",
        fix="Declare its configuration, or remove it from `connect_connectors`.",
    ),
    DeclaredMessage(
        id="connect-worker-invalid",
        area=Area.CONNECT,
        meaning="The file is not the configuration of a Connect worker.",
        fix="Pass the properties that `connect-distributed` starts with.",
    ),
    DeclaredMessage(
        id="connect-url-invalid",
        area=Area.CONNECT,
        meaning="The address of Connect's REST API is not a URL.",
        fix="Write an address such as `https://connect.example.com:8083`.",
    ),
    DeclaredMessage(
        id="connect-unreachable",
        area=Area.CONNECT,
        meaning="No worker of the Connect cluster answered in time.",
        fix="Start a worker, and read its journal.",
    ),
    DeclaredMessage(
        id="connect-tls-failed",
        area=Area.CONNECT,
        meaning=(
            "TLS with a Connect worker failed: a certificate is not accepted, or the worker does not use TLS."
        ),
        fix="Correct the certificate, the trust store or the listener that the message identifies.",
    ),
    DeclaredMessage(
        id="connect-request-rejected",
        area=Area.CONNECT,
        meaning="A Connect worker rejected a request.",
        fix="Correct the reason in the message, which is the worker's own.",
    ),
    DeclaredMessage(
        id="connect-rest-without-tls",
        area=Area.CONNECT,
        meaning="REST is offered without TLS. A client that reaches it can change every connector.",
        fix="Set the listener to `https://` and give it a key and a trust store.",
    ),
    DeclaredMessage(
        id="connect-rest-exposed",
        area=Area.CONNECT,
        meaning=(
            "REST with TLS listens on an address that other hosts reach, and accepts every certificate of "
            "its authorities."
        ),
        fix="Let REST listen on 127.0.0.1, behind a proxy that checks the subject of the certificate.",
    ),
    DeclaredMessage(
        id="connect-rest-unauthenticated",
        area=Area.CONNECT,
        meaning="REST does not require a client certificate.",
        fix="Set `listeners.https.ssl.client.auth=required`.",
    ),
    DeclaredMessage(
        id="connect-rest-store-missing",
        area=Area.CONNECT,
        meaning="REST has no key store or no trust store.",
        fix="Set the location of a PKCS12 or JKS file.",
    ),
    DeclaredMessage(
        id="connect-rest-store-unusable",
        area=Area.CONNECT,
        meaning="REST has a PEM store, which its server cannot use.",
        fix="Set the location of a PKCS12 or JKS file.",
    ),
    DeclaredMessage(
        id="connect-store-unreadable",
        area=Area.CONNECT,
        meaning="Java cannot use a key or trust store, for the reason in the message.",
        fix="Correct the file, its password or its permissions.",
    ),
    DeclaredMessage(
        id="connect-key-missing",
        area=Area.CONNECT,
        meaning="A key store has no private key.",
        fix="Put the client's key and certificate into the key store.",
    ),
    DeclaredMessage(
        id="connect-certificate-missing",
        area=Area.CONNECT,
        meaning="Java sees no certificate in a store.",
        fix="Create the store with `keytool`.",
    ),
    DeclaredMessage(
        id="connect-certificate-expired",
        area=Area.CONNECT,
        meaning="The certificates of a store have expired.",
        fix="Renew the certificate, and restart the worker.",
    ),
    DeclaredMessage(
        id="connect-certificate-premature",
        area=Area.CONNECT,
        meaning="The certificates of a store are not valid yet.",
        fix="Set the clock of the host, or re-issue the certificate.",
    ),
    DeclaredMessage(
        id="worker-setting-missing",
        area=Area.CONNECT,
        meaning="A setting that the worker needs is not set.",
        fix="Set it in the worker's properties.",
    ),
    DeclaredMessage(
        id="worker-topic-missing",
        area=Area.CONNECT,
        meaning="The name of an internal topic of the worker is not set.",
        fix="Set it to a compacted topic of this worker's group.",
    ),
    DeclaredMessage(
        id="worker-topic-shared",
        area=Area.CONNECT,
        meaning="Two internal topics of the worker have the same name.",
        fix="Give each its own topic.",
    ),
    DeclaredMessage(
        id="worker-topic-unreplicated",
        area=Area.CONNECT,
        meaning="An internal topic of the worker has one replica, although there are several brokers.",
        fix="Set the replication factor to 3, or to the number of brokers.",
    ),
    DeclaredMessage(
        id="plugin-path-missing",
        area=Area.CONNECT,
        meaning="`plugin.path` is not set, so plugins are not isolated from each other.",
        fix="Set it to the folders that have a folder for each plugin.",
    ),
    DeclaredMessage(
        id="plugin-folder-unusable",
        area=Area.CONNECT,
        meaning="A folder of `plugin.path` cannot be used, for the reason in the message.",
        fix="Install the plugins there, or remove the folder from `plugin.path`.",
    ),
    DeclaredMessage(
        id="dead-letters-unreachable",
        area=Area.CONNECT,
        meaning="A sink has a dead-letter topic, but stops at the first bad record.",
        fix="Set `errors.tolerance=all`.",
    ),
    DeclaredMessage(
        id="bad-records-dropped",
        area=Area.CONNECT,
        meaning="A sink drops records that it cannot convert, and keeps no copy.",
        fix="Set `errors.deadletterqueue.topic.name`.",
    ),
    DeclaredMessage(
        id="dead-letters-without-headers",
        area=Area.CONNECT,
        meaning="Dead-letter records of a sink have no headers, so they cannot be sent back.",
        fix="Set `errors.deadletterqueue.context.headers.enable=true`.",
    ),
    DeclaredMessage(
        id="connector-override-refused",
        area=Area.CONNECT,
        meaning="A connector overrides client settings that the worker's policy refuses.",
        fix="Remove these settings from the connector, or change the policy of the worker.",
    ),
    DeclaredMessage(
        id="connector-task-failed",
        area=Area.CONNECT,
        meaning="A connector, or a task of it, has failed on a worker.",
        fix="Correct the cause that the message has, and restart it.",
    ),
    DeclaredMessage(
        id="security-protocol-unknown",
        area=Area.CONNECT,
        meaning="A client of the worker has a security protocol that Kafka does not have.",
        fix="Set one of the protocols in the message.",
    ),
    DeclaredMessage(
        id="client-listener-plaintext",
        area=Area.CONNECT,
        meaning="A client of the worker uses TLS, but the listener does not.",
        fix="Set `bootstrap.servers` to the TLS listener.",
    ),
    DeclaredMessage(
        id="client-names-unchecked",
        area=Area.CONNECT,
        meaning="A client of the worker does not check the names of the brokers.",
        fix="Remove `ssl.endpoint.identification.algorithm`, and put the names into the certificates.",
    ),
    DeclaredMessage(
        id="client-plaintext-to-tls",
        area=Area.CONNECT,
        meaning="A client of the worker would send plaintext to a TLS listener.",
        fix="Set `security.protocol=SSL`, a key store and a trust store for this client.",
    ),
    DeclaredMessage(
        id="key-store-password-missing",
        area=Area.CONNECT,
        meaning="A client of the worker has a key store without a password.",
        fix="Set `ssl.keystore.password` for this client.",
    ),
    DeclaredMessage(
        id="key-store-missing",
        area=Area.CONNECT,
        meaning="A client of the worker has no key store, but the brokers require a certificate.",
        fix="Set `ssl.keystore.location` and `ssl.keystore.type` for this client.",
    ),
    DeclaredMessage(
        id="trust-store-missing",
        area=Area.CONNECT,
        meaning="A client of the worker has no trust store.",
        fix="Set `ssl.truststore.location` and `ssl.truststore.type` for this client.",
    ),
    DeclaredMessage(
        id="admin-settings-inherited",
        area=Area.CONNECT,
        meaning="The worker's admin client has TLS settings only because it inherits them from the worker.",
        fix="Set them for the admin client, too.",
    ),
    DeclaredMessage(
        id="connect-configuration-refused",
        area=Area.CONNECT,
        meaning="The configuration of a worker is refused. Nothing was restarted.",
        fix="Correct the faults that follow in the message.",
    ),
    DeclaredMessage(
        id="connector-plugin-missing",
        area=Area.CONNECT,
        meaning="No worker has a plugin with the class of a connector.",
        fix="Install the plugin on all workers, or correct `connector.class`.",
    ),
)
