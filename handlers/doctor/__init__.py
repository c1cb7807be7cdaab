"""Checks whether the bot itself works: its links to Slack, clusters, Prometheus, pagers and the store. `links` is what
is found about one link, `checks` the list of all checks, also those that the running bot repeats.
"""
