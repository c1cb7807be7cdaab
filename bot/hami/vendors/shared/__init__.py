"""What several vendors have in common."""
