"""A variant that uses more registers or shared memory than its baseline must not lose a launch."""

import pytest

from hybridcc.errors import LaunchLimit
from hybridcc.passes.kernel import LaunchBounds
from hybridcc.runtime.assemble import assemble
from hybridcc.runtime.limits import check_launch_limits, largest_block


def kernel(live: int, shared: int = 0) -> str:
    """Keeps ``live`` loaded values alive across a barrier, so that each takes a register."""
    loads = "\n".join(f"ld.global.f32 %f{i}, [%d1+{4 * i}];" for i in range(live))
    sums = "\n".join(f"mul.f32 %f{i}, %f{i}, %f{i}; st.global.f32 [%d1+{4 * i}], %f{i};" for i in range(live))
    room = f".shared .align 4 .b8 room[{shared}];" if shared else ""
    use = "st.shared.f32 [room], %f0;" if shared else ""
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{{
    .reg .f32 %f<{live}>; .reg .b64 %d<3>; {room}
    ld.param.u64 %d0, [p];
    cvta.to.global.u64 %d1, %d0;
    {loads}
    bar.sync 0;
    {use}
    {sums}
    ret;
}}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90"])
def test_a_variant_with_many_registers_is_refused(arch):
    small, large = (assemble(kernel(n), arch) for n in (8, 150))
    assert small.registers <= 64 < large.registers
    assert largest_block(small, "k") == 1024
    assert largest_block(large, "k") < 512
    with pytest.raises(LaunchLimit, match="registers a block has at most") as error:
        check_launch_limits(small, large, "k")
    assert error.value.next_step
    check_launch_limits(large, small, "k")
    check_launch_limits(small, large, "k", LaunchBounds(max_threads=128))


def test_more_static_shared_memory_is_refused():
    without, with_ = assemble(kernel(4), "sm_90"), assemble(kernel(4, shared=4096), "sm_90")
    with pytest.raises(LaunchLimit, match="4096 bytes more of static shared memory"):
        check_launch_limits(without, with_, "k")
    check_launch_limits(with_, without, "k")
