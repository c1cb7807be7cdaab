"""Renders a report, a change or an incident as Slack's blocks.

A renderer makes a `Draft` (`blocks`), whose blocks hold `Text`s, keys with values. `blocks.in_words` puts in the words
of one language, cuts them at Slack's limits and escapes them (`text`), so that nothing that a cluster holds acts in
Slack. One file per thing shown: `report`, `tables`, `change`, `triage_head`, `digest`, `home`.
"""
