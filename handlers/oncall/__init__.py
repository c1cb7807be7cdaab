"""Alerts and incidents.

An alert is written to the store as it comes. `keeper` makes passes over what is new: `alert_sorter` finds the incident
of its cause (`causes` asks the playbooks), `incident_threads` keeps the thread up to date, `paging` tells pagers.
`listeners` and `service` are for what people do about an incident, `digests` for scheduled reports. `bot.triage`
decides what becomes of an incident, without a clock or a network.
"""
