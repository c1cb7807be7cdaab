"""Reads words into questions: one grammar for Slack and the terminal."""
