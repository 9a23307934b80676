"""What only the controller does: artifacts are fetched, checked and cached."""
