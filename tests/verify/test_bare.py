"""Arguments of bare PTX, guessed from how each parameter is used."""

from hybridcc.passes.kernel import ArrayType, Kernel, ScalarType
from hybridcc.passes.verify.bare import with_arguments

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 p0, .param .u64 p1, .param .f32 a, .param .u32 n, .param .u64 unused)
{
    .reg .pred %p; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %d<8>;
    ld.param.u64 %d0, [p0];
    ld.param.u64 %d1, [p1];
    ld.param.f32 %f0, [a];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p, %r1, %r0;
    @%p bra done;
    cvta.to.global.u64 %d2, %d0;
    cvta.to.global.u64 %d3, %d1;
    mul.wide.u32 %d4, %r1, 4;
    {
        add.s64 %d5, %d2, %d4;
        add.s64 %d6, %d3, %d4;
        ld.global.f32 %f1, [%d5];
        mul.f32 %f2, %f1, %f0;
        st.global.f32 [%d6], %f2;
    }
done:
    ret;
}
"""


def kernel(text: str, entry: str = "scale") -> Kernel:
    return Kernel(entry, entry, text, "sm_80", "ptx")


def test_pointers_scalars_and_unused_parameters():
    types = [argument.type for argument in with_arguments(kernel(PTX)).arguments]
    assert types[:2] == [ArrayType("float32", 1), ArrayType("float32", 1)]
    assert types[2:4] == [ScalarType("float32"), ScalarType("int32")]
    assert types[4] == ScalarType("bool")


def test_an_offset_is_no_pointer():
    moved = PTX.replace("mul.wide.u32 %d4, %r1, 4;", "ld.param.u64 %d4, [unused];")
    types = [argument.type for argument in with_arguments(kernel(moved)).arguments]
    assert types[4] == ScalarType("int64")


def test_every_parameter_keeps_its_declared_type():
    found = with_arguments(kernel(PTX))
    assert [argument.fields[0].ptx_type for argument in found.arguments] == [".u64", ".u64", ".f32", ".u32", ".u64"]
    assert with_arguments(found) is found
