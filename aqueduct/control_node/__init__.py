"""The control node's own work: it fetches and checks artifacts, signs certificates and reports a status."""
