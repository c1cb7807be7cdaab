from hypothesis import given
from hypothesis import strategies as st

from tests.sampling import part


@given(st.integers(0, 60), st.integers(0, 12), st.text(max_size=4))
def test_what_make_test_leaves_out_is_what_make_test_all_runs_after_it(count: int, most: int, name: str) -> None:
    cases = list(range(count))
    sampled, rest = part("sample", name, cases, most), part("rest", name, cases, most)
    assert sorted(sampled + rest) == cases
    assert len(sampled) == min(most, count)
    assert part("sample", name, cases, most) == sampled
