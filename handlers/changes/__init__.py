"""Temporary changes, from the words to the card.

`listeners` takes words, forms and buttons; `service` says what comes of them; `execute` has the guard, who may, and the
maker, who plans and writes. `report` and `bot.slack.render.change` show a change, `journal` writes it down.
`leader_pass` lets one replica look at every cluster and revert what is due. What a change is, and how it is reverted,
stands in `bot.changes`.
"""
