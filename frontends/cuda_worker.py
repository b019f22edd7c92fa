"""A process that compiles CUDA C++ to PTX by NVRTC. Run as a script; nothing imports it.

Reads one JSON object from stdin, {"source", "name", "options", "expressions", "library", "builtins"}, and writes one to
stdout: {"ptx", "log", "lowered": {expression: entry}} or {"error", "kind"}; "archs" lists what NVRTC knows.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    try:
        answer = compile(request)
    except ImportError as error:
        answer = {"kind": "missing", "error": str(error)}
    json.dump(answer, answers)
    answers.close()


def compile(request: dict[str, Any]) -> dict[str, Any]:
    # Both are looked for by name, so they are loaded from the wheel first.
    for library in (*request["builtins"], request["library"]):
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    from cuda.bindings import nvrtc

    def call(function: Any, *arguments: Any) -> Any:
        status, *rest = function(*arguments)
        if int(status) != 0:
            raise SystemExit(f"{function.__name__} gives {status.name}")
        return rest[0] if rest else None

    def taken(size: Any, get: Any) -> str:
        text = b" " * call(size, program)
        call(get, program, text)
        return text.decode(errors="replace").rstrip("\0")

    archs = list(call(nvrtc.nvrtcGetSupportedArchs))
    program = call(nvrtc.nvrtcCreateProgram, request["source"].encode(), request["name"].encode(), 0, [], [])
    for expression in request["expressions"]:
        call(nvrtc.nvrtcAddNameExpression, program, expression.encode())
    options = [option.encode() for option in request["options"]]
    status, *_ = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = taken(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    if int(status) != 0:
        return {"kind": status.name, "error": log, "archs": archs}
    lowered = {
        expression: call(nvrtc.nvrtcGetLoweredName, program, expression.encode()).decode()
        for expression in request["expressions"]
    }
    return {"ptx": taken(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX), "log": log, "lowered": lowered, "archs": archs}


if __name__ == "__main__":
    main()
