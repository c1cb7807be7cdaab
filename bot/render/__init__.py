"""Renderers of reports for everything but Slack: a terminal, Markdown, JSON and pictures."""
