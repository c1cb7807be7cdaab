"""Playbooks of their own that users write: one that works and the ways in which others end."""

WORKS = """
from playbooks.api import Answer, Cluster, Playbook, Texts, finding
async def gather(cluster: Cluster) -> str:
    return cluster.name
def diagnose(snapshot: str, say: Texts) -> Answer:
    return Answer("fine", [finding("fine", severity="info")])
"""
ENDS = 'PLAYBOOK = Playbook("Is it fine?", gather, diagnose)\n'
