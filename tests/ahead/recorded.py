"""A kernel as nvcc 13.0 writes it, and an answer to its loop: four loads of a batch wait together.

    y[i] = x[i] + x[i + 1] + … + x[i + n - 1]
"""

from __future__ import annotations

from pathlib import Path

from hybridcc.asking import regions_of
from hybridcc.frontends import ptx_file
from hybridcc.passes.rewrite import prompt, recording

SUM = Path(__file__).with_name("sum.ptx")


def four_at_a_time(last: int = 0) -> str:
    """``last`` is the count at which the loop over what is left stops; any but 0 leaves elements out."""
    lines = [
        ".reg .pred %p;",
        ".reg .b32 %left;",
        ".reg .b64 %ptr;",
        ".reg .f32 %v<4>;",
        "mov.f32 %out0, 0f00000000;",
        "mov.b64 %ptr, %in0;",
        "mov.b32 %left, %in1;",
        "setp.lt.s32 %p, %left, 4;",
        "@%p bra $REST;",
        "$MAIN:",
        *(f"ld.global.f32 %v{k}, [%ptr+{4 * k}];" for k in range(4)),
        *(f"add.f32 %out0, %out0, %v{k};" for k in range(4)),
        "add.s64 %ptr, %ptr, 16;",
        "add.s32 %left, %left, -4;",
        "setp.ge.s32 %p, %left, 4;",
        "@%p bra $MAIN;",
        "$REST:",
        f"setp.le.s32 %p, %left, {last};",
        "@%p bra $DONE;",
        "$ONE:",
        "ld.global.f32 %v0, [%ptr];",
        "add.f32 %out0, %out0, %v0;",
        "add.s64 %ptr, %ptr, 4;",
        "add.s32 %left, %left, -1;",
        f"setp.gt.s32 %p, %left, {last};",
        "@%p bra $ONE;",
        "$DONE:",
    ]
    return "```ptx\n" + "\n".join(lines) + "\n```\n"


def record(place: Path, *answers: str, arch: str = "sm_80") -> Path:
    """A recording in which a model gave these answers to the loop of ``sum``."""
    (kernel,) = ptx_file.load(SUM, arch=arch)
    asked = prompt.build(regions_of(kernel, 4)[0], kernel)
    recording.write(
        place,
        [recording.Recorded(asked.hash, asked.template_version, "by hand", "2026-12-01", text) for text in answers],
    )
    return place
