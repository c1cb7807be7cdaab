"""Which cluster is meant: the named one, else the channel's, else the usual one; no guess between several."""

import pytest
from msgspec.structs import replace

from bot.errors import NoSuchCluster, WhichCluster
from handlers.deps import Deps

NOTHING = Deps(**dict.fromkeys(Deps.__struct_fields__, None))  # type: ignore[arg-type]  # none of these is used here
TWO = replace(NOTHING, clusters=("staging", "prod"), channels={"C1": "staging"}, usual="")


@pytest.mark.parametrize(
    ("deps", "named", "channel", "meant"),
    [
        (TWO, "prod", "C1", "prod"),
        (TWO, "", "C1", "staging"),
        (replace(TWO, usual="prod"), "", "C2", "prod"),
        (replace(TWO, clusters=("prod",), channels={}, usual="prod"), "", "C2", "prod"),
        (replace(TWO, clusters=(), channels={}), "", "C2", ""),
    ],
    ids=["named", "the channel's", "the usual one", "the only one", "none has a name"],
)
def test_the_cluster_that_is_meant_is_found(deps: Deps, named: str, channel: str, meant: str) -> None:
    assert deps.the_cluster(named, channel) == meant


def test_between_several_clusters_nothing_is_guessed() -> None:
    with pytest.raises(WhichCluster) as caught:
        TWO.the_cluster("", "C2")
    assert list(caught.value.clusters) == ["prod", "staging"]


@pytest.mark.parametrize("deps", [TWO, replace(TWO, clusters=(), channels={})], ids=["of two", "without names"])
def test_what_would_be_kept_or_changed_of_a_cluster_that_there_is_not_is_refused(deps: Deps) -> None:
    with pytest.raises(NoSuchCluster, match="there is no cluster 'prdo'"):
        deps.the_cluster("prdo", "C1")


@pytest.mark.parametrize(("clusters", "name"), [(("staging", "prod"), ""), (("prod",), "staging"), ((), "prod")])
def test_what_is_no_name_of_a_cluster_here_is_refused(clusters: tuple[str, ...], name: str) -> None:
    with pytest.raises(NoSuchCluster):
        replace(NOTHING, clusters=clusters).check_cluster(name)


def test_where_clusters_have_no_names_theirs_is_empty() -> None:
    replace(NOTHING, clusters=()).check_cluster("")


def test_a_message_is_linked_to_as_slack_links_to_it() -> None:
    deps = replace(NOTHING, workspace="https://acme.slack.com/")
    assert deps.permalink("C1", "1795237200.000123") == "https://acme.slack.com/archives/C1/p1795237200000123"
    assert deps.permalink("C1", "") == replace(NOTHING, workspace="").permalink("C1", "1.2") == ""
