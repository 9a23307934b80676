"""What only the controller does: it fetches and checks artifacts, and signs certificates."""
