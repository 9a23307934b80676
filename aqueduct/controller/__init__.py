"""The controller's own work: it fetches and checks artifacts, and signs certificates."""
