"""The questions: one folder per verb, each a `Playbook` in its `playbook.py`.

A question runs in three steps: `gather` does all of the I/O and reads the cluster into a snapshot; rules look at the
snapshot's scene and give findings; `diagnose` makes the report of them. `gather/`, `scenes/`, `rules/` and `judgement/`
are what the verbs share, in the order in which a question runs through them.
"""
