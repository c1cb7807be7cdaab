from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.kube.quantities import canonical, parse_quantity, whole


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", "0"),
        ("20k", "20000"),
        ("1500m", "1.5"),
        ("100n", "0.0000001"),
        ("3u", "0.000003"),
        ("5Gi", "5368709120"),
        ("1.5Ki", "1536"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", "1000000000000000000"),
        ("12e-1", "1.2"),
        (".5", "0.5"),
        ("1.", "1"),
        ("+1", "1"),
        ("-2Ki", "-2048"),
        (8, "8"),
        (0.1, "0.1"),
        (1e22, "10000000000000000000000"),
    ],
)
def test_a_quantity_is_an_exact_number(text, number):
    assert parse_quantity(text) == Decimal(number)


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1Mib", "1K", "1ki", "1mi", "1.1.1", "--1", "1e", "1e1.5", "1e1Ki", "abc", ".", "i", "٣", "0x10"],
)
def test_what_is_no_quantity_is_none(text):
    assert parse_quantity(text) is None
    assert whole(text) is None


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "1e99999999999", "9" * 65, pytest.param(16**5000, id="more digits than str() writes")],
)
def test_what_no_cluster_could_mean_is_none(value):
    assert parse_quantity(value) is None


@pytest.mark.parametrize(
    ("value", "number"),
    [("1500m", 2), ("1n", 1), ("-1500m", -2), ("3", 3), ("0.0", 0), ("5Gi", 5 * 1024**3), (2, 2), (None, None)],
)
def test_a_whole_number_is_rounded_away_from_zero_as_kubernetes_does(value, number):
    assert whole(value) == number


numbers = st.from_regex(r"[+-]?[0-9]{1,25}(\.[0-9]{0,25})?", fullmatch=True)


@given(numbers, st.sampled_from([("", 1), ("k", 1000), ("E", 10**18), ("Ki", 1024), ("Ei", 1024**6)]))
def test_no_digit_is_lost(number, suffix):
    name, factor = suffix
    parsed = parse_quantity(number + name)
    assert parsed is not None
    assert Fraction(parsed) == Fraction(number) * factor


@given(st.text() | st.floats() | st.integers() | st.from_regex(r"[0-9.eE+\-]{1,20}[numkKMGTPEi]{0,3}"))
def test_any_value_is_a_number_or_none(value):
    number = parse_quantity(value)
    assert number is None or number.is_finite()
    assert (whole(value) is None) == (number is None)


@pytest.mark.parametrize(
    ("text", "canon"),
    [
        ("2000", "2k"), (2000, "2k"), ("12188", "12188"), ("2048Mi", "2Gi"), ("1500Mi", "1500Mi"), ("512Ki", "512Ki"),
        ("1Ki", "1Ki"), ("0", "0"), ("1500m", "1500m"), ("0.5", "500m"), ("1e3", "1e3"), ("4G", "4G"), ("100k", "100k"),
        ("1000Gi", "1000Gi"), ("1024Gi", "1Ti"), ("1000000", "1M"), ("many", "many"),
    ],
)  # fmt: skip
def test_a_quantity_is_written_as_the_api_writes_it(text, canon):
    assert canonical(text) == canon
