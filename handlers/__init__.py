"""What wakes the bot: words in Slack or a shell, buttons, forms, alerts and timers.

`inbox` answers questions from Slack, `shell` those of a terminal; both read words with `parsing`. Each feature that is
more than a question has a folder: `changes`, `oncall`, `profiles`, `doctor`. Handlers decide nothing about GPUs: they
ask a playbook and render its report. `deps` has the dependencies of all handlers.
"""
