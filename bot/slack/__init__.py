"""The bot's side of Slack, without knowing what is said there.

`connection` holds the socket, `app` puts one gate before every listener, `gateway` makes every call of Slack's API.
What must reach Slack waits in `outbox`, which the store backs; what only one person sees goes through `responder`.
`question_tasks` runs the work behind an answer: written down first, taken in turns, reported when it fails.
"""
