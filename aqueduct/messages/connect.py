"""Messages about Kafka Connect."""

from aqueduct.messages.message import Area, DeclaredMessage

CONNECT = (
    DeclaredMessage(
        id="connect-store-not-opened",
        area=Area.CONNECT,
        meaning=(
            "A key store or trust store of the worker could not be opened, because its password is not "
            "available on this host, or because `keytool` is not installed or did not end in time. The "
            "certificates in the store were not checked."
        ),
        fix=(
            "Run the command on the worker's host, as the user of the worker. To accept unchecked items, "
            "pass `--allow-unknown`."
        ),
    ),
    DeclaredMessage(
        id="connect-broker-away",
        area=Area.CONNECT,
        meaning="No broker answers at the address, so it is unknown whether the listener requires TLS.",
        fix=(
            "Start the broker, or correct the address. To skip this check, pass `--no-probe`. To accept "
            "unchecked items, pass `--allow-unknown`."
        ),
    ),
    DeclaredMessage(
        id="connect-topics-unknown",
        area=Area.CONNECT,
        meaning="It is unknown whether the topics of a sink exist. The message shows the reason.",
        fix=(
            "Check the topics manually, or correct the cause in the message. To accept unchecked items, "
            "pass `--allow-unknown`."
        ),
    ),
    DeclaredMessage(
        id="connect-clients-unsafe",
        area=Area.CONNECT,
        meaning=(
            "Clients of the worker or of its connectors would connect without TLS or with unsuitable "
            "certificates. No connector was changed."
        ),
        fix="Correct all settings that the message lists.",
    ),
    DeclaredMessage(
        id="connector-file-forbidden",
        area=Area.CONNECT,
        meaning="A connector reads or writes files outside the allowed folders. No connector was changed.",
        fix="Use files in the folders that the message shows, or allow another folder in the inventory.",
    ),
    DeclaredMessage(
        id="connector-config-invalid",
        area=Area.CONNECT,
        meaning="The configuration of a connector is incomplete, contradictory, or not an object.",
        fix="Correct the configuration in the message.",
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
        meaning="A connector is declared without a configuration, and the connector does not exist.",
        fix="Declare the configuration of the connector, or remove the connector from `connect_connectors`.",
    ),
    DeclaredMessage(
        id="connect-worker-invalid",
        area=Area.CONNECT,
        meaning="The file is not the configuration of a Connect worker.",
        fix="Pass the properties file with which `connect-distributed` is started.",
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
        meaning="No worker of the Connect cluster answered within the time limit.",
        fix="Start a worker, and read its journal.",
    ),
    DeclaredMessage(
        id="connect-tls-failed",
        area=Area.CONNECT,
        meaning=(
            "The TLS connection to a Connect worker failed: a certificate was not accepted, or the worker "
            "does not use TLS."
        ),
        fix="Correct the certificate, the trust store or the listener in the message.",
    ),
    DeclaredMessage(
        id="connect-request-rejected",
        area=Area.CONNECT,
        meaning="A Connect worker rejected a request.",
        fix="Correct the cause. The message contains the error message of the worker.",
    ),
    DeclaredMessage(
        id="connect-rest-without-tls",
        area=Area.CONNECT,
        meaning=(
            "The REST API of the worker is available without TLS. Each client that reaches the REST API "
            "can change every connector."
        ),
        fix="Set the listener to `https://`, and set a key store and a trust store for the listener.",
    ),
    DeclaredMessage(
        id="connect-rest-exposed",
        area=Area.CONNECT,
        meaning=(
            "The REST listener with TLS listens on an address that other hosts can reach, and accepts every "
            "certificate of the authorities in its trust store."
        ),
        fix=(
            "Let the REST listener listen on 127.0.0.1, behind a proxy that checks the subject of the "
            "client certificate."
        ),
    ),
    DeclaredMessage(
        id="connect-rest-unauthenticated",
        area=Area.CONNECT,
        meaning="The REST listener does not require a client certificate.",
        fix="Set `listeners.https.ssl.client.auth=required`.",
    ),
    DeclaredMessage(
        id="connect-rest-store-missing",
        area=Area.CONNECT,
        meaning="The REST listener has no key store or no trust store.",
        fix="Set the location of a PKCS12 or JKS file.",
    ),
    DeclaredMessage(
        id="connect-rest-store-unusable",
        area=Area.CONNECT,
        meaning="The REST listener has a PEM store, but the REST server of Connect cannot use PEM stores.",
        fix="Set the location of a PKCS12 or JKS file.",
    ),
    DeclaredMessage(
        id="connect-store-unreadable",
        area=Area.CONNECT,
        meaning="Java cannot use a key store or trust store. The message shows the reason.",
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
        meaning="Java finds no certificate in a key store or trust store.",
        fix="Create the store with `keytool`.",
    ),
    DeclaredMessage(
        id="connect-certificate-expired",
        area=Area.CONNECT,
        meaning="Certificates in a key store or trust store have expired.",
        fix="Renew the certificates, and restart the worker.",
    ),
    DeclaredMessage(
        id="connect-certificate-premature",
        area=Area.CONNECT,
        meaning="Certificates in a key store or trust store are not valid yet.",
        fix="Set the clock of the host, or re-issue the certificate.",
    ),
    DeclaredMessage(
        id="worker-setting-missing",
        area=Area.CONNECT,
        meaning="A setting that the worker needs is not set.",
        fix="Set the setting in the properties file of the worker.",
    ),
    DeclaredMessage(
        id="worker-topic-missing",
        area=Area.CONNECT,
        meaning="The name of an internal topic of the worker is not set.",
        fix="Set the name of a compacted topic that only the workers of this group use.",
    ),
    DeclaredMessage(
        id="worker-topic-shared",
        area=Area.CONNECT,
        meaning="Two internal topics of the worker have the same name in the settings.",
        fix="Set a separate topic for each setting.",
    ),
    DeclaredMessage(
        id="worker-topic-unreplicated",
        area=Area.CONNECT,
        meaning=(
            "The replication factor of an internal topic of the worker is 1, although the cluster has "
            "several brokers."
        ),
        fix="Set the replication factor to 3, or to the number of brokers.",
    ),
    DeclaredMessage(
        id="plugin-path-missing",
        area=Area.CONNECT,
        meaning="`plugin.path` is not set, so the libraries of plugins are not isolated from each other.",
        fix="Set `plugin.path` to folders that contain one folder for each plugin.",
    ),
    DeclaredMessage(
        id="plugin-folder-unusable",
        area=Area.CONNECT,
        meaning="A folder of `plugin.path` cannot be used. The message shows the reason.",
        fix="Install the plugins in this folder, or remove the folder from `plugin.path`.",
    ),
    DeclaredMessage(
        id="dead-letters-unreachable",
        area=Area.CONNECT,
        meaning=(
            "A sink has a dead-letter topic, but `errors.tolerance` stops the sink at the first record "
            "that it cannot process."
        ),
        fix="Set `errors.tolerance=all`.",
    ),
    DeclaredMessage(
        id="bad-records-dropped",
        area=Area.CONNECT,
        meaning="A sink drops records that it cannot process, and writes no copy of these records.",
        fix="Set `errors.deadletterqueue.topic.name`.",
    ),
    DeclaredMessage(
        id="dead-letters-without-headers",
        area=Area.CONNECT,
        meaning=(
            "Dead-letter records of a sink have no headers with their origin, so `aqueduct dlq replay` "
            "cannot send them back."
        ),
        fix="Set `errors.deadletterqueue.context.headers.enable=true`.",
    ),
    DeclaredMessage(
        id="connector-override-refused",
        area=Area.CONNECT,
        meaning=(
            "A connector overrides client settings, but the policy of the worker rejects these overrides."
        ),
        fix=(
            "Remove these settings from the connector, or set `connector.client.config.override.policy` "
            "of the worker."
        ),
    ),
    DeclaredMessage(
        id="connector-task-failed",
        area=Area.CONNECT,
        meaning="A connector or one of its tasks has failed on a worker.",
        fix="Correct the cause in the message, and restart the connector or the task.",
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
        meaning="A client of the worker uses TLS, but the listener of the brokers does not use TLS.",
        fix="Set `bootstrap.servers` to the TLS listener.",
    ),
    DeclaredMessage(
        id="client-names-unchecked",
        area=Area.CONNECT,
        meaning=(
            "A client of the worker does not compare the host names of the brokers with their certificates."
        ),
        fix=(
            "Remove `ssl.endpoint.identification.algorithm`. Add the host names to the certificates of "
            "the brokers."
        ),
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
        meaning=(
            "The admin client of the worker has no TLS settings of its own, and inherits the TLS "
            "settings of the worker."
        ),
        fix="Set the TLS settings with the prefix `admin.`, too.",
    ),
    DeclaredMessage(
        id="connect-configuration-refused",
        area=Area.CONNECT,
        meaning="The configuration of a worker has faults. Nothing was restarted.",
        fix="Correct the faults in the message.",
    ),
    DeclaredMessage(
        id="connector-plugin-missing",
        area=Area.CONNECT,
        meaning="No worker has a plugin with the class of a connector.",
        fix="Install the plugin on all workers, or correct `connector.class`.",
    ),
)
