"""Reading, for all verbs: each function reads one subject and returns what was seen.

What could not be read is returned as a `Gap` in the place of the value, so that no rule can mistake it for nothing.
There is one file per subject: the pod and its events, its nodes, the scheduler's logs and memory, the webhook, usage.
"""
