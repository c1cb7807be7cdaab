"""What stands on a pod: devices, container by container."""

import pytest

from bot.hami.pods.allocations import Allocation, decode_allocations
from tests.hami.build import V25, V26, V27, V28, V29, V210, VERSIONS

A, B = Allocation("GPU-a", 3000, 10), Allocation("GPU-b", 5000, 0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("text", "containers"),
    [
        ("GPU-a,NVIDIA,3000,10:;", ((A,),)),
        ("GPU-a,NVIDIA,3000,10:GPU-b,NVIDIA,5000,0:;", ((A, B),)),
        ("GPU-a,NVIDIA,3000,10:;GPU-b,NVIDIA,5000,0:;", ((A,), (B,))),
        ("GPU-a,NVIDIA,3000,10:;;", ((A,), ())),
        (";GPU-a,NVIDIA,3000,10:;", ((), (A,))),
        ("GPU-a,NVIDIA,3000,10", ((A,),)),
        ("GPU-a,NVIDIA,3000,10:;x:;", ((A,), ())),
        ("", ()),
        (";", ((),)),
        ("GPU-a,NVIDIA,+3000,10,more,fields:;", ((A,),)),
        ("00000000-03-00.0,XPU,24576,25:;", ((Allocation("00000000-03-00.0", 24576, 25),),)),
        (",,0,0:;", ((Allocation("", 0, 0),),)),
    ],
)
def test_containers_end_in_semicolons_and_cards_in_colons(text, containers, version):
    assert decode_allocations(text, version) == containers


@pytest.mark.parametrize("version", VERSIONS)
def test_a_piece_with_too_few_fields_spoils_the_whole_pod(version):
    assert decode_allocations("GPU-a,NVIDIA,3000,10:GPU-b,NVIDIA,5000:;", version) is None


@pytest.mark.parametrize("memory", ["x", "", "1.5", "1e3", "٣", "3_000", " 1"])
def test_what_is_no_integer_is_zero_up_to_2_8_and_spoils_the_pod_later(memory):
    text = f"GPU-a,NVIDIA,{memory},10:;"
    for version in (V25, V26, V27, V28):
        assert decode_allocations(text, version) == ((Allocation("GPU-a", 0, 10),),)
    for version in (V29, V210):
        assert decode_allocations(text, version) is None


def test_an_integer_beyond_32_bits_is_the_largest_one_up_to_2_8_and_spoils_the_pod_later():
    for version in (V25, V28):
        assert decode_allocations("GPU-a,NVIDIA,3000000000,10:;", version) == ((Allocation("GPU-a", 2**31 - 1, 10),),)
    assert decode_allocations("GPU-a,NVIDIA,3000000000,10:;", V210) is None


def test_the_mig_suffix_is_a_part_of_the_uuid_only_before_2_10():
    text = "GPU-279abf3a[0-0],NVIDIA,10240,14:;"
    for version in (V25, V26, V27, V28, V29):
        assert decode_allocations(text, version) == ((Allocation("GPU-279abf3a", 10240, 14),),)
    assert decode_allocations(text, V210) == ((Allocation("GPU-279abf3a[0-0]", 10240, 14),),)
