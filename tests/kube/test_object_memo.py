"""What is worked out of objects is worked out again for those alone that changed."""

from bot.kube.models import Node, ObjectMeta
from bot.kube.models.base import Kept, of_each


def node(name: str) -> Node:
    return Node(ObjectMeta(name=name))


def test_only_objects_that_were_not_there_before_are_looked_at():
    looked: list[str] = []

    def name_of(item: Node) -> str:
        looked.append(item.name)
        return item.name

    kept: Kept = {}
    first, second, third = node("a"), node("b"), node("b")
    assert of_each(kept, name_of, [first, second]) == ["a", "b"]
    assert of_each(kept, name_of, [second, first]) == ["b", "a"]
    assert looked == ["a", "b"]
    assert of_each(kept, name_of, [first, third]) == ["a", "b"]
    assert looked == ["a", "b", "b"]


def test_what_is_gone_is_forgotten():
    kept: Kept = {}
    of_each(kept, len_of, [node("a"), node("b")])
    of_each(kept, len_of, [node("c")])
    assert [item.name for item in kept[len_of][0]] == ["c"]


def test_one_object_may_stand_twice_and_nothing_need_be_kept():
    one = node("a")
    assert of_each({}, len_of, [one, one]) == [1, 1]
    assert of_each(None, len_of, [one, one]) == [1, 1]


def test_what_an_answer_does_with_its_list_is_nobody_else_s_matter():
    kept: Kept = {}
    nodes = [node("a"), node("b")]
    for _ in range(3):
        found = of_each(kept, len_of, nodes)
        assert found == [1, 1]
        found.clear()


def len_of(item: Node) -> int:
    return len(item.name)
