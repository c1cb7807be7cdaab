"""Go profiles: taken, kept and explained.

`words` reads what people write, `service` answers in Slack and `shell` in a terminal. `captures` takes a profile over
its seconds, `kept` finds one that was taken before, `analyses` answers `top`, `list`, `compare` and `hints`.
"""
