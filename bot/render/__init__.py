"""Renderers of reports for everything but Slack: a terminal, Markdown, JSON and pictures.

`words` makes the words of a report in one language; the other modules lay them out and know no cluster.
"""
