"""Alerts and incidents.

An alert is written to the store as it comes. `keeper` passes over what is new: `alert_sorter` finds the incident of its
cause (`causes` asks the playbooks), `incident_threads` makes the thread follow, `paging` tells pagers. `listeners` and
`service` are for what people do about an incident, `digests` for scheduled reports. What becomes of an incident is
decided in `bot.triage`, without a clock or a network.
"""
