"""A Go profile of HAMi's scheduler, or of another Go program: where its time or its memory goes."""

import click

from playbooks.playbook import Playbook
from playbooks.profile.fetch import gather
from playbooks.profile.report import diagnose
from playbooks.profile.request import EXAMPLE, request

PLAYBOOK = Playbook(
    verb="profile",
    summary="Take a profile of HAMi's scheduler; table, flame graph, what stands out, and the file.",
    example=EXAMPLE,
    parameters=(
        click.Argument(["words"], nargs=-1, metavar="[WORDS]…"),
        click.Option(
            ["--target"], default="", metavar="NAMESPACE/POD:PORT", help="Another Go program than HAMi's scheduler."
        ),
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
