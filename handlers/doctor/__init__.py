"""Whether the bot itself works: `doctor` looks at its links, to Slack, clusters, Prometheus, pagers and the store.

`links` is what is found about one link, `clusters` and `slack` look, `selftest` asks a question as Slack would ask it.
"""
