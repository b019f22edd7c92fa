"""A process that lowers LLVM IR to PTX by llvmlite. Run as a script; nothing imports it.

LLVM ends its process on some inputs (a PTX version too low for the chip, an intrinsic that cannot be selected), so it
never runs in the user's. Reads one JSON object from stdin, {"module" (base64), "bitcode", "arch", "libdevice"}, and
writes one to stdout: {"ptx", "kernels": {name: [[parameter, type, [attributes], element type or ""]]}} or
{"error", "kind"}.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

PTX_FEATURE = "+ptx90"
"""The newest that the assembler of CUDA 13.0 reads; every chip that LLVM 22 knows can be had with it."""

ACCESS = re.compile(
    r"(?:getelementptr (?:inbounds |nuw |nusw )*|load (?:volatile )?)(?P<type>\w+), ptr(?: addrspace\(\d+\))? "
    r"(?P<pointer>%[\w.$-]+)"
    r"|store (?:volatile )?(?P<stored>\w+) [^,]+, ptr(?: addrspace\(\d+\))? (?P<target>%[\w.$-]+)"
)

TRIPLE = "nvptx64-nvidia-cuda"


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # LLVM's own words go to stderr
    request = json.load(sys.stdin)
    try:
        answer = lower(request)
    except ImportError as error:
        answer = {"kind": "missing", "error": str(error)}
    except (RuntimeError, UnicodeDecodeError) as error:  # llvmlite's one class for all that LLVM says
        answer = {"kind": "LLVM", "error": str(error)}
    json.dump(answer, answers)
    answers.close()


def lower(request: dict[str, Any]) -> dict[str, Any]:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    raw = base64.b64decode(request["module"])
    module = llvm.parse_bitcode(raw) if request["bitcode"] else llvm.parse_assembly(raw.decode())
    if module.triple and not module.triple.startswith("nvptx"):
        raise RuntimeError(f"error: the module is for {module.triple}, not for {TRIPLE}")
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=request["arch"], features=PTX_FEATURE, opt=3)
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    kernels = {function.name: parameters(function) for function in module.functions if not function.is_declaration}
    if any(function.is_declaration and function.name.startswith("__nv_") for function in module.functions):
        link(llvm, module, Path(request["libdevice"]))
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return {"ptx": machine.emit_assembly(module), "kernels": kernels}


def parameters(function: Any) -> list[list[Any]]:
    elements = pointed(function)
    return [
        [each.name, str(each.type), attributes(each), elements.get(str(each).split()[-1], "")]
        for each in function.arguments
    ]


def pointed(function: Any) -> dict[str, str]:
    """Parameter -> what it is indexed, loaded or stored as first; pointers have no element type of their own."""
    found: dict[str, str] = {}
    for block in function.blocks:
        for instruction in block.instructions:
            match = ACCESS.search(str(instruction))
            if match is not None:
                found.setdefault(match["pointer"] or match["target"], match["type"] or match["stored"])
    return found


def attributes(argument: Any) -> list[str]:
    return [each.decode() if isinstance(each, bytes) else str(each) for each in argument.attributes]


def link(llvm: Any, module: Any, libdevice: Path) -> None:
    """NVIDIA's math functions; made internal, so that those that nothing calls go."""
    library = llvm.parse_bitcode(libdevice.read_bytes())
    library.triple, library.data_layout = module.triple, module.data_layout
    defined = {function.name for function in library.functions if not function.is_declaration}
    module.link_in(library)
    for function in module.functions:
        if function.name in defined:
            function.linkage = "internal"


if __name__ == "__main__":
    main()
