"""Rewrites of conv1d's loop by hand, against its interface: what a good answer of a model looks like.

%in0 w.shape[0], %in1 the thread's index i >= 0, %in2 x.shape[0], %in3 data of x, %in4 data of w; %out0 the sum.
"""

COUNTED = """
    .reg .pred %more;
    .reg .f32 %a, %b;
    .reg .b64 %x, %w, %left;
    shl.b64 %x, %in1, 2;
    add.s64 %x, %in3, %x;
    mov.u64 %w, %in4;
    mov.u64 %left, %in0;
    mov.f32 %out0, 0f00000000;
    setp.lt.s64 %more, %left, 1;
    @%more bra DONE;
LOOP:
    ld.global.f32 %a, [%x];
    ld.global.f32 %b, [%w];
    fma.rn.f32 %out0, %a, %b, %out0;
    add.s64 %x, %x, 4;
    add.s64 %w, %w, 4;
    add.s64 %left, %left, -1;
    setp.ne.s64 %more, %left, 0;
    @%more bra LOOP;
DONE:
"""


def unrolled(times: int = 4) -> str:
    """A counted loop that does ``times`` trips at once, and one that does the rest, in the original's order."""
    loads = "\n".join(f"ld.global.f32 %a{k}, [%x+{4 * k}]; ld.global.f32 %b{k}, [%w+{4 * k}];" for k in range(times))
    sums = "\n".join(f"fma.rn.f32 %out0, %a{k}, %b{k}, %out0;" for k in range(times))
    return f"""
    .reg .pred %p<3>;
    .reg .f32 %a<{times}>, %b<{times}>;
    .reg .b64 %x, %w, %left;
    shl.b64 %x, %in1, 2;
    add.s64 %x, %in3, %x;
    mov.u64 %w, %in4;
    mov.u64 %left, %in0;
    mov.f32 %out0, 0f00000000;
    setp.lt.s64 %p0, %left, {times};
    @%p0 bra $rest;
$main:
    {loads}
    {sums}
    add.s64 %x, %x, {4 * times};
    add.s64 %w, %w, {4 * times};
    add.s64 %left, %left, -{times};
    setp.ge.s64 %p1, %left, {times};
    @%p1 bra $main;
$rest:
    setp.lt.s64 %p2, %left, 1;
    @%p2 bra $done;
$one:
    ld.global.f32 %a0, [%x];
    ld.global.f32 %b0, [%w];
    fma.rn.f32 %out0, %a0, %b0, %out0;
    add.s64 %x, %x, 4;
    add.s64 %w, %w, 4;
    add.s64 %left, %left, -1;
    setp.ne.s64 %p2, %left, 0;
    @%p2 bra $one;
$done:
"""
