"""In which order rules speak, and which of them ends the search: tables of stages, one file per kind of subject. A rule
belongs in `playbooks.rules`; these tables change only for a new stage. `playbooks.rule.run` runs them.
"""
