"""A Slack-compatible workspace on loopback: Web API, Socket Mode, signed HTTP mode, a page, and faults on demand."""

from sandbox.slack.clock import RealClock, VirtualClock
from sandbox.slack.delivery import Ack, sign
from sandbox.slack.errors import SlackError
from sandbox.slack.faults import Fault
from sandbox.slack.seed import App, Command, Person, Room, Said, Seed, Shortcut, UserGroup, Verb
from sandbox.slack.server import SlackServer

__all__ = [
    "Ack",
    "App",
    "Command",
    "Fault",
    "Person",
    "RealClock",
    "Room",
    "Said",
    "Seed",
    "Shortcut",
    "SlackError",
    "SlackServer",
    "UserGroup",
    "Verb",
    "VirtualClock",
    "sign",
]
