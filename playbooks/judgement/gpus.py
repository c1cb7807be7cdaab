"""The stages about GPUs, for `gpus` and the digest: what is free, what no pod can get, what HAMi does not know."""

from playbooks.rule import Stage
from playbooks.rules.capacity.gpu_totals import ghosts, not_found, room, stranded, unregistered
from playbooks.rules.dra import given_by_claims, handed_out_twice
from playbooks.scenes.gpus import GpusScene

GPUS: tuple[Stage[GpusScene], ...] = (
    Stage("handed out twice", handed_out_twice),
    Stage("what the scheduler counts wrongly", ghosts),
    Stage("room", room),
    Stage("room that nobody gets", stranded),
    Stage("unknown to HAMi", unregistered),
    Stage("handed out by claims", given_by_claims),
)
NOTHING: tuple[Stage[GpusScene], ...] = (Stage("no GPUs", not_found),)
"""The stages where neither HAMi's scheduler nor a DRA driver hands out GPUs."""
