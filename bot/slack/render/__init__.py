"""Renders a report, a change or an incident as Slack's blocks.

A renderer makes a `Draft` (`blocks`), whose blocks hold texts and not words. `blocks.in_words` puts the words in, in
one language, cuts them at Slack's limits and escapes them (`text`), so that nothing that a cluster holds acts in Slack.
One file per thing shown: `report`, `tables`, `change`, `triage_head`, `digest`, `home`.
"""
