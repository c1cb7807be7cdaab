"""Temporary changes of HAMi's scheduler, from the words that ask for one to the card that shows it in Slack.

`listeners` takes words, forms and buttons; `service` carries them out. `execute` decides who may change what (`Guard`),
and plans and writes changes (`ChangeMaker`). `report` and `bot.slack.render.change` show a change, `journal` records it
in the store and in Slack. `leader_pass` lets one replica look at every cluster and revert what is due. What a change
is, and how it is reverted, stands in `bot.changes`.
"""
