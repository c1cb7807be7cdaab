"""Words in, a question out: one grammar for Slack and the terminal."""
