"""What each host is asked beside what its roles declare."""

CERTIFICATES = ("/etc/aqueduct/*/tls/*.pem", "/etc/aqueduct/*/*/tls/*.pem")
