"""What a workspace begins with: people, channels, what they said, and the app that is installed."""

from dataclasses import dataclass, field

DEFAULT_SCOPES = (
    "app_mentions:read",
    "chat:write",
    "commands",
    "files:write",
    "reactions:write",
    "channels:history",
    "groups:history",
    "im:history",
    "im:write",
    "usergroups:read",
    "users:read",
)


@dataclass(frozen=True, slots=True)
class Person:
    """A user; `team_id` is that of another organisation's workspace, empty for the people of this one."""

    id: str
    name: str
    real_name: str
    team_id: str = ""
    is_guest: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """A channel; `members` are user ids of people, `with_app` says whether the bot is in it. `is_shared`: another
    organisation has it too (Slack Connect).
    """

    id: str
    name: str
    members: tuple[str, ...]
    topic: str = ""
    is_private: bool = False
    is_archived: bool = False
    with_app: bool = True
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """A message that is there from the start, `age` seconds old; `under` the text of the message it replies to."""

    channel: str
    user: str
    text: str
    age: float
    under: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command with its leading slash; `should_escape` as in an app manifest."""

    command: str
    description: str = ""
    usage_hint: str = ""
    should_escape: bool = False


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A shortcut; `type` is "message" or "global"."""

    callback_id: str
    name: str
    type: str = "message"


@dataclass(frozen=True, slots=True)
class UserGroup:
    id: str
    handle: str
    name: str
    users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class App:
    """The installed app: what its manifest would say. `events` are the bot events it subscribes to."""

    id: str = "A0HAMIBOT1"
    name: str = "hami-bot"
    bot_user_id: str = "U0HAMIBOT1"
    bot_id: str = "B0HAMIBOT1"
    aliases: tuple[str, ...] = ("hami",)
    commands: tuple[Command, ...] = (
        Command("/hami", "Why is my GPU pod pending?", "why <pod> | nodes | pending | help"),
    )
    shortcuts: tuple[Shortcut, ...] = (Shortcut("diagnose", "Diagnose with HAMi"),)
    scopes: tuple[str, ...] = DEFAULT_SCOPES
    events: tuple[str, ...] = ("app_mention", "message.im", "app_home_opened")


@dataclass(frozen=True, slots=True)
class Verb:
    """A word after the command that the page completes."""

    name: str
    usage: str = ""
    help: str = ""


_ADA, _GRACE, _LINUS = "U0ADA00001", "U0GRACE001", "U0LINUS001"
_GENERAL, _ONCALL, _TRAINING, _BUDGET = "C0GENERAL1", "C0GPUONC01", "C0MLTRAIN1", "C0BUDGET01"
_PENDING = "`ml/s03-card-insufficient-memory` has been Pending for 20 minutes. The node has free memory, I think?"


@dataclass(frozen=True, slots=True)
class Seed:
    """The start of a workspace. `welcome` is shown by the page above an empty conversation with the app."""

    team_id: str = "T0SANDBOX1"
    team: str = "Sandbox"
    users: tuple[Person, ...] = (
        Person(_ADA, "ada", "Ada (ML engineer)"),
        Person(_GRACE, "grace", "Grace (on-call)"),
        Person(_LINUS, "linus", "Linus (platform lead)"),
    )
    channels: tuple[Room, ...] = (
        Room(_GENERAL, "general", (_ADA, _GRACE, _LINUS), "Everybody"),
        Room(_ONCALL, "gpu-oncall", (_ADA, _GRACE, _LINUS), "GPU cluster on-call: one thread per incident"),
        Room(_TRAINING, "ml-training", (_ADA, _LINUS), "Training runs"),
        Room(_BUDGET, "gpu-budget", (_GRACE, _LINUS), "Who pays for which cards", is_private=True, with_app=False),
    )
    messages: tuple[Said, ...] = (
        Said(_GENERAL, _LINUS, "The GPU nodes run HAMi now: ask for a slice of a card, not for a card.", 7200),
        Said(_GENERAL, _ADA, "So `nvidia.com/gpumem: 4000` is 4000 MiB of one card?", 7000),
        Said(_GENERAL, _LINUS, "Yes. When a pod hangs in Pending, ask the bot before you ask Grace.", 6900),
        Said(_TRAINING, _ADA, "Starting the ablations tonight, eight pods, a quarter of a card each.", 5400),
        Said(_TRAINING, _LINUS, "Fine, there is room on the second node until tomorrow morning.", 5300),
        Said(_ONCALL, _ADA, _PENDING, 1500),
        Said(_ONCALL, _GRACE, "Looking. `kubectl describe` only says that no node is available.", 1380, under=_PENDING),
        Said(_ONCALL, _GRACE, "I am on call until Friday. Page me for anything that blocks a release.", 900),
        Said(_BUDGET, _LINUS, "Four more A100 are ordered for next quarter.", 3600),
    )
    usergroups: tuple[UserGroup, ...] = (UserGroup("S0ONCALL01", "gpu-oncall", "GPU on-call", (_GRACE,)),)
    app: App = field(default_factory=App)
    verbs: tuple[Verb, ...] = ()
    welcome: str = ""


PAT = Person("U0PAT00001", "pat", "Pat (another company)", team_id="T0PARTNER1")
"""Somebody of another organisation, in no workspace unless its seed says so."""
SHARED = Room(
    "C0PARTNER1",
    "gpu-partners",
    (_ADA, _GRACE, _LINUS, PAT.id),
    "Shared with another company: hami-bot answers only its own workspace",
    is_shared=True,
)
"""A channel that PAT is in, in no workspace unless its seed says so."""
