"""What is run on the hardware, as patterns: one line is a family of instructions, ``{a,b}`` stands for either.

``opcode.modifiers`` alone takes its operands from the instruction table; after a colon stands the whole body instead,
in which d0, d1 … are results and s0, s1 … sources. ``d0.16`` gives a width in bits (1: a predicate) where the
semantics gives none, with a letter for the kind of value: f floating point, h f16x2, n 0 to 31, s small. In a body
``OP`` is the expanded head, ``SHARED`` and ``GLOBAL`` are 16 bytes of the thread's own in shared and global memory; a
body that is one word in capitals is made by bodies.py.
Which roles and effects the opcodes have is isa.py's alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_INT = "{u16,s16,u32,s32,u64,s64}"
_ORDER = "{eq,ne,lt,le,gt,ge}"
_FLOAT_ORDER = "{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}"
_R = "{rn,rz,rm,rp}"
_OR = "{,.rn,.rz,.rm,.rp}"
_I = "{rni,rzi,rmi,rpi}"

COMPUTING = f"""
add.{_INT}
sub.{_INT}
add.sat.s32
sub.sat.s32
add.{{u16x2,s16x2}}
mul.{{lo,hi}}.{_INT}
mul.wide.{{u16,s16,u32,s32}}
mad.{{lo,hi}}.{_INT}
mad.wide.{{u16,s16,u32,s32}}
mad.hi.sat.s32
mul24.{{lo,hi}}.{{u32,s32}}
mad24.{{lo,hi}}.{{u32,s32}}
mad24.hi.sat.s32 : OP d0.32, s0.32, s1.32, s2.32
sad.{_INT}
div.{_INT}
rem.{_INT}
abs.{{s16,s32,s64}}
neg.{{s16,s32,s64}}
min.{_INT}
max.{_INT}
min.{{u16x2,s16x2}}
max.{{u16x2,s16x2}}
min.relu.{{s32,s16x2}}
max.relu.{{s32,s16x2}}
popc.{{b32,b64}}
clz.{{b32,b64}}
brev.{{b32,b64}}
bfind.{{u32,s32,u64,s64}}
bfind.shiftamt.{{u32,s32,u64,s64}}
fns.b32 : OP d0.32, s0.32, s1.32n, s2.32s
bfe.{{u32,s32,u64,s64}}
bfi.{{b32,b64}}
szext.{{clamp,wrap}}.{{u32,s32}}
bmsk.{{clamp,wrap}}.b32
dp4a.{{u32,s32}}.{{u32,s32}}
dp2a.{{lo,hi}}.{{u32,s32}}.{{u32,s32}}
add.cc.{{u32,s32}} : add.cc.u32 d0.32, s0.32, s1.32; addc.cc.u32 d1.32, s2.32, s3.32; addc.u32 d2.32, s4.32, s5.32
add.cc.{{u64,s64}} : add.cc.u64 d0.64, s0.64, s1.64; addc.cc.u64 d1.64, s2.64, s3.64; addc.u64 d2.64, s4.64, s5.64
sub.cc.{{u32,s32}} : sub.cc.u32 d0.32, s0.32, s1.32; subc.cc.u32 d1.32, s2.32, s3.32; subc.u32 d2.32, s4.32, s5.32
sub.cc.{{u64,s64}} : sub.cc.u64 d0.64, s0.64, s1.64; subc.cc.u64 d1.64, s2.64, s3.64; subc.u64 d2.64, s4.64, s5.64
mad.{{lo,hi}}.cc.{{u32,s32,u64,s64}} : CARRY
and.{{pred,b16,b32,b64}}
or.{{pred,b16,b32,b64}}
xor.{{pred,b16,b32,b64}}
not.{{pred,b16,b32,b64}}
cnot.{{b16,b32,b64}}
lop3.b32 : OP d0.32, s0.32, s1.32, s2.32, 0x96; OP d1.32, s0, s1, s2, 0xE8; OP d2.32, s0, s1, s2, 0x1B
shl.{{b16,b32,b64}}
shr.{{b16,b32,b64,u16,u32,u64,s16,s32,s64}}
shf.{{l,r}}.{{clamp,wrap}}.b32
prmt.b32
prmt.b32.{{f4e,b4e,rc8,ecl,ecr,rc16}}
selp.{{b16,b32,b64,u16,s32,u64,f32,f64}}
slct.{{b16,b32,b64,u16,s32,u64,f32,f64}}.s32
slct.{{u32,s32,u64,f32,f64}}.f32
slct.ftz.{{b32,f64}}.f32
setp.{_ORDER}.{_INT}
setp.{{eq,ne}}.{{b16,b32,b64}}
setp.{{lo,ls,hi,hs}}.{{u16,u32,u64}}
setp.{_FLOAT_ORDER}.{{f32,f64,f16,bf16}}
setp.{_FLOAT_ORDER}.ftz.f32
setp.{{lt,geu,nan}}.ftz.f16
setp.{{lt,eq,geu}}.{{and,or,xor}}.f32 : OP d0.1|d1.1, s0, s1, s2.1
setp.{{lt,ne}}.{{and,or,xor}}.s32 : OP d0.1|d1.1, s0, s1, !s2.1
setp.{{lt,ge,eq,neu,gtu,num,nan}}.{{f16x2,bf16x2}} : OP d0.1|d1.1, s0, s1
set.{_FLOAT_ORDER}.{{u32,f32}}.f32
set.{{lt,equ}}.ftz.s32.f32
set.{_ORDER}.{{u32,f32}}.s32
set.{{lo,hs}}.s32.u32
set.{{lt,ge,num}}.{{u32,f32}}.f64
set.{{lt,ge,neu}}.{{u16,u32,s32,f16}}.f16
set.{{lt,neu}}.{{f16x2,u32}}.f16x2
set.{{gt,eq}}.{{bf16x2,u32}}.bf16x2
set.lt.{{and,or,xor}}.u32.s32 : OP d0.32, s0.32, s1.32, s2.1
testp.{{finite,infinite,number,notanumber,normal,subnormal}}.{{f32,f64}}
copysign.{{f32,f64}}
mov.b32 : OP d0.32, {{s0.16, s1.16}}; OP {{d1.16, d2.16}}, s2.32
mov.b64 : OP d0.64, {{s0.32, s1.32}}; OP {{d1.32, d2.32}}, s2.64; OP {{d3.16, d4.16, d5.16, d6.16}}, s2
mov.{{b16,u32,s64,f32,f64}}

{{add,sub,mul}}{_OR}{{,.ftz}}{{,.sat}}.f32
fma.{_R}{{,.ftz}}{{,.sat}}.f32
mad.{_R}.f32
{{add,sub,mul}}{_OR}.f64
fma.{_R}.f64
{{add,sub,mul}}{{,.rn}}{{,.ftz}}{{,.sat}}.{{f16,f16x2}}
{{add,sub,mul}}{{,.rn}}.{{bf16,bf16x2}}
fma.rn{{,.ftz}}{{,.sat,.relu}}.{{f16,f16x2}}
fma.rn{{,.relu}}.{{bf16,bf16x2}}
{{neg,abs}}{{,.ftz}}.{{f32,f16,f16x2}}
{{neg,abs}}.{{f64,bf16,bf16x2}}
{{min,max}}{{,.ftz}}{{,.NaN}}{{,.xorsign.abs}}.{{f32,f16,f16x2}}
{{min,max}}{{,.NaN}}{{,.xorsign.abs}}.{{bf16,bf16x2}}
{{min,max}}.f64
{{div,rcp,sqrt}}.{_R}{{,.ftz}}.f32
{{div,rcp,sqrt}}.{_R}.f64

div.{{approx,full}}{{,.ftz}}.f32
{{rcp,sqrt,rsqrt,sin,cos,lg2,ex2}}.approx{{,.ftz}}.f32
rsqrt.approx{{,.ftz}}.f64
rcp.approx.ftz.f64
tanh.approx.{{f32,f16,f16x2,bf16,bf16x2}}
ex2.approx.{{f16,f16x2}}
ex2.approx.ftz.{{bf16,bf16x2}}

cvt.{{u8,s8,u16,s16,u32,s32,u64,s64}}.{{u8,s8,u16,s16,u32,s32,u64,s64}}
cvt.sat.{{u8.s8,s8.u8,s64.u64}}
cvt.sat.{{u8,s8}}.{{u16,s16,u32,s32,u64,s64}}
cvt.sat.u16.{{s8,s16,u32,s32,u64,s64}}
cvt.sat.s16.{{u16,u32,s32,u64,s64}}
cvt.sat.u32.{{s8,s16,s32,u64,s64}}
cvt.sat.s32.{{u32,u64,s64}}
cvt.sat.u64.{{s8,s16,s32,s64}}
cvt.{_R}.{{f32,f64}}.{{u8,s8,u16,s16,u32,s32,u64,s64}}
cvt.{_R}.f16.{{u8,s8,u16,s16,u32,s32,u64,s64}}
cvt.rn.bf16.{{u16,s16,u32,s32,u64,s64}}
cvt.rn.sat.f32.{{s32,u64}}
cvt.{_I}.{{s32,u32,s64,u64}}.{{f32,f64,f16}}
cvt.{{rni,rzi}}.{{u8,s8,u16,s16}}.{{f32,f64,f16}}
cvt.{{rni,rzi}}.{{u16,s16,s32,u64}}.bf16
cvt.rzi.ftz.{{s8,s32,u64}}.f32
cvt.rpi.ftz.{{s8,s32,u64}}.f32
cvt.rzi.sat.{{u8,s16,s32,u64}}.f32
cvt.{{f64.f32,f64.f16,f32.f16,f64.bf16,f32.bf16,f64.ftz.f32}}
cvt.ftz.f64.f32
cvt.ftz.f32.f16
cvt.sat.{{f32.f32,f64.f64,f16.f16,f32.f16}}
cvt.{_R}{{,.ftz}}{{,.sat}}.f32.f64
cvt.{{rn,rz,rm,rp}}{{,.ftz}}.f16.f32
cvt.{_R}.f16.f64
cvt.rn.sat.f16.f32
cvt.{{rn,rz}}.relu.{{f16,bf16}}.f32
cvt.{_R}.bf16.f32
cvt.{_R}.bf16.{{f16,f64}}
cvt.{_I}{{,.ftz}}.f32.f32
cvt.{_I}.{{f64.f64,f16.f16}}
cvt.{{rni,rzi}}.bf16.bf16
cvt.{{rn,rz}}{{,.relu}}.{{f16x2,bf16x2}}.f32
cvt.{{rna,rn,rz}}.tf32.f32
cvt.{{rn,rz}}.relu.tf32.f32
cvt.rna.satfinite.tf32.f32 : OP d0.32, s0.32f
cvt.rn.satfinite{{,.relu}}.{{e4m3x2,e5m2x2}}.f32 : OP d0.16, s0.32f, s1.32f
cvt.rn.satfinite.{{e4m3x2,e5m2x2}}.f16x2 : OP d0.16, s0.32h
cvt.rn{{,.relu}}.f16x2.{{e4m3x2,e5m2x2}} : OP d0.32, s0.16
cvt.pack.sat.{{u8,s8}}.s32.b32 : OP d0.32, s0.32, s1.32, s2.32
cvt.pack.sat.{{u16,s16}}.s32 : OP d0.32, s0.32, s1.32
vabsdiff4.u32.u32.u32{{,.add}} : OP d0.32, s0.32, s1.32, s2.32
{{vadd4,vsub4,vavrg4,vmin4,vmax4}}.{{u32.u32.u32,s32.s32.s32}} : OP d0.32, s0.32, s1.32, s2.32
{{vadd2,vsub2,vavrg2,vmin2,vmax2,vabsdiff2}}.{{u32.u32.u32,s32.s32.s32}} : OP d0.32, s0.32, s1.32, s2.32
vset4.u32.u32.{{eq,lt,ge}} : OP d0.32, s0.32, s1.32, s2.32
"""

_NAN_COMPUTING = """
{add,sub,mul}.rn.f64
add.{rz,rm}.f64
{fma.rn,div.rn,min,max,copysign}.f64
{rcp.rn,sqrt.rn,abs,neg}.f64
rsqrt.approx.f64
rcp.approx.ftz.f64
{add,sub,mul}.rn.{f32,f16,bf16,f16x2}
{fma.rn,min,max,min.NaN,max.NaN,fma.rn.relu}.{f16,bf16}
{fma.rn,div.rn,div.full,min,max,min.NaN,fma.rn.sat}.f32
{rcp.rn,sqrt.rn,abs,neg,abs.ftz,neg.ftz,sin.approx,ex2.approx,lg2.approx,rsqrt.approx,rcp.approx}.f32
{abs,neg,tanh.approx,ex2.approx}.f16
{abs,neg,tanh.approx}.bf16
cvt.{rn.f32.f64,f64.f32,ftz.f64.f32,rn.f16.f32,f32.f16,rn.f16.f64,f64.f16,rn.bf16.f32,f32.bf16,rna.tf32.f32}
cvt.{rni.f32.f32,rni.f64.f64,rni.f16.f16,sat.f32.f32,rzi.s32.f32,rzi.u64.f64,rzi.s64.f32,rzi.s32.f64,rzi.u16.f16}
cvt.rn.{f16x2,bf16x2}.f32
"""
"""The same on nothing but infinities, zeros, ones and NaNs of both signs, quiet and signalling, with payloads."""

_TINY_COMPUTING = """
mul.{rn,rz,rm,rp}{,.ftz}.f32
fma.{rn,rz,rm,rp}{,.ftz}.f32
div.{rn,rz,rm,rp}{,.ftz}.f32
{mul,fma}.rn{,.ftz}.f16
mul.rn.ftz.sat.f16x2
fma.rn.ftz.relu.f16
cvt.{rn,rz,rm,rp}{,.ftz}.f32.f64
cvt.{rn,rm}{,.ftz}.f16.f32
"""
"""The same on operands whose result lies next to the least normal number, where flushing is decided."""

MOVING = """
ld.shared.{u8,s8,u16,s16,u32,s32,b32,f32} : st.shared.b32 [SHARED], s0.32; OP d0.32, [SHARED]
ld.shared.{u8,s8,u16,s16,u32,s32,b64,f64} : st.shared.b64 [SHARED], s0.64; OP d0.64, [SHARED]
ld.shared.{u8,s8,u16,s16,b16} : st.shared.b32 [SHARED], s0.32; OP d0.16, [SHARED]
ld.global.{u8,s8,u16,s16,u32,s64,f64} : st.global.b64 [GLOBAL], s0.64; OP d0.64, [GLOBAL]
ld.{volatile.shared,relaxed.cta.shared,acquire.gpu.shared}.u32 : st.shared.b32 [SHARED], s0.32; OP d0.32, [SHARED]
ld.shared.v2.{b32,u16} : st.shared.b64 [SHARED], s0.64; OP {d0.32, d1.32}, [SHARED]
ld.shared.v4.{b32,u8,s16} : st.shared.v2.b64 [SHARED], {s0.64, s1.64}; OP {d0.32, d1.32, d2.32, d3.32}, [SHARED]
ld.global.v2.{f32,s8} : st.global.b64 [GLOBAL], s0.64; OP {d0.32, d1.32}, [GLOBAL]
ld.global.v2.b64 : st.global.v2.b64 [GLOBAL], {s0.64, s1.64}; OP {d0.64, d1.64}, [GLOBAL]
ld.global.{ca,cg,cs,cv}.u32 : st.global.b32 [GLOBAL], s0.32; OP d0.32, [GLOBAL]
st.shared.{b8,u16} : st.shared.b64 [SHARED], s0.64; OP [SHARED+2], s1.16; ld.shared.b64 d0.64, [SHARED]
st.shared.{u8,b16,u32} : st.shared.b64 [SHARED], s0.64; OP [SHARED+4], s1.32; ld.shared.b64 d0.64, [SHARED]
st.shared.v2.{b16,u32} : st.shared.b64 [SHARED], s0.64; OP [SHARED], {s1.32, s2.32}; ld.shared.b64 d0.64, [SHARED]
st.{volatile,relaxed.cta,release.gpu}.global.u32 : OP [GLOBAL], s0.32; ld.global.b32 d0.32, [GLOBAL]
ld.u32 : GENERIC
st.u32 : GENERIC
cvta.{shared,local}.u64 : GENERIC
cvta.to.{shared,local}.u64 : GENERIC
isspacep.{shared,global,local} : GENERIC
atom.shared.{and,or,xor,exch}.{b32,b64} : ATOM
atom.shared.{add,min,max}.{u32,s32,u64} : ATOM
atom.shared.{min,max}.s64 : ATOM
atom.shared.{inc,dec}.u32 : ATOM
atom.shared.cas.{b16,b32,b64} : ATOM
atom.shared.add.{f32,f64} : ATOM
atom.global.{and,or,xor,exch}.{b32,b64} : ATOM
atom.global.{add,min,max}.{u32,s32,u64} : ATOM
atom.global.{min,max}.s64 : ATOM
atom.global.{inc,dec}.u32 : ATOM
atom.global.cas.{b16,b32,b64} : ATOM
atom.global.add.{f32,f64} : ATOM
atom.{global,shared}.add.noftz.{f16,f16x2,bf16,bf16x2} : ATOM
atom.{relaxed.gpu,acq_rel.cta,acquire.sys,release.gpu}.global.add.u32 : ATOM
red.global.{and,or,xor}.{b32,b64} : ATOM
red.global.{add,min,max}.{u32,s32,u64} : ATOM
red.shared.{inc,dec,add,min,max}.u32 : ATOM
red.global.add.{f32,f64} : ATOM
red.global.add.noftz.{f16x2,bf16x2} : ATOM
shfl.sync.{idx,up,down,bfly}.b32 : SHUFFLE
vote.sync.{all,any,uni}.pred : OP d0.1, s0.1, 0xFFFFFFFF; OP d1.1, !s1.1, 0xFFFFFFFF
vote.sync.ballot.b32 : OP d0.32, s0.1, 0xFFFFFFFF
match.any.sync.{b32,b64} : MATCH
match.all.sync.{b32,b64} : MATCH
redux.sync.{add,min,max}.{u32,s32} : OP d0.32, s0.32, 0xFFFFFFFF
redux.sync.{and,or,xor}.b32 : OP d0.32, s0.32, 0xFFFFFFFF
activemask.b32 : MASKED
elect.sync : MASKED
bar.red.popc.u32 : OP d0.32, 0, s0.1
bar.red.{and,or}.pred : OP d0.1, 0, s0.1
barrier.sync.aligned : st.shared.b32 [SHARED], s0.32; OP 1, 512; EXCHANGE
bar.sync : st.shared.b32 [SHARED], s0.32; OP 0; EXCHANGE
bar.warp.sync : st.shared.b32 [SHARED], s0.32; OP 0xFFFFFFFF; EXCHANGE
ldmatrix.sync.aligned.m8n8.{x1,x2,x4}{,.trans}.shared.b16 : LDMATRIX
stmatrix.sync.aligned.m8n8.{x1,x2,x4}{,.trans}.shared.b16 : STMATRIX
movmatrix.sync.aligned.m8n8.trans.b16 : OP d0.32, s0.32
cp.async.ca.shared.global : CPASYNC
cp.async.cg.shared.global : CPASYNC
mma.sync.aligned.m8n8k16.row.col{,.satfinite}.s32.{u8,s8}.{u8,s8}.s32 : MMA 2 1 1 2
mma.sync.aligned.m16n8k16.row.col{,.satfinite}.s32.{u8,s8}.{u8,s8}.s32 : MMA 4 2 1 4
mma.sync.aligned.m16n8k32.row.col{,.satfinite}.s32.{u8,s8}.{u8,s8}.s32 : MMA 4 4 2 4
mma.sync.aligned.m8n8k32.row.col.s32.{u4,s4}.{u4,s4}.s32 : MMA 2 1 1 2
mma.sync.aligned.m16n8k32.row.col.s32.{u4,s4}.{u4,s4}.s32 : MMA 4 2 1 4
mma.sync.aligned.m16n8k64.row.col.s32.{u4,s4}.{u4,s4}.s32 : MMA 4 4 2 4
mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.{xor,and}.popc : MMA 2 1 1 2
mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.{xor,and}.popc : MMA 4 2 1 4
mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.{xor,and}.popc : MMA 4 4 2 4
mma.sync.aligned.m16n8k8.row.col.f32.{f16.f16,bf16.bf16}.f32 : MMA 4 2 1 4
mma.sync.aligned.m16n8k16.row.col.f32.{f16.f16,bf16.bf16}.f32 : MMA 4 4 2 4
mma.sync.aligned.m16n8k{8,16}.row.col.f16.f16.f16.f16 : MMA
mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 : MMA 4 2 1 4
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 : MMA 4 4 2 4
mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 : MMA 2 1 1 2
"""


def expand(pattern: str) -> Iterator[str]:
    """Every string that the braces allow, in order: "a.{b,c}" gives a.b, a.c."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        yield pattern
        return
    for choice in found.group(1).split(","):
        yield from expand(pattern[: found.start()] + choice + pattern[found.end() :])


def families() -> Iterator[tuple[str, str, str]]:
    """(group, instruction, body or "") for every variant; the group is "computing", "nan", "tiny" or "moving"."""
    texts = {"computing": COMPUTING, "nan": _NAN_COMPUTING, "tiny": _TINY_COMPUTING, "moving": MOVING}
    for group, text in texts.items():
        for line in filter(None, map(str.strip, text.splitlines())):
            head, _, body = line.partition(" : ")
            for name in expand(head.strip()):
                yield group, name, body.strip()
