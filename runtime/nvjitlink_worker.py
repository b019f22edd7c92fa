"""A child process that holds nvJitLink. Run as a script; nothing imports it.

nvJitLink 13.0 calls exit() on some malformed input (seen: broken debug sections in PTX), which would end the
user's program. The child reads requests from stdin and answers on stdout until stdin closes:

    request   one JSON line {"options": [...], "size": bytes of PTX}, then the PTX
    answer    one JSON line {"result": nvJitLink's result code, "stage": "create" | "add" | "link" | "done",
              "log": text, "size": bytes of code}, then the code

It imports nothing but the standard library, so that it starts in tens of milliseconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import BinaryIO

INPUT_PTX = 2  # nvJitLink.h: NVJITLINK_INPUT_PTX


def main(library_path: str, requests: BinaryIO, answers: BinaryIO) -> None:
    library = ctypes.CDLL(library_path)
    symbols = _symbols(library)
    while header := requests.readline():
        request = json.loads(header)
        ptx = requests.read(request["size"])
        result, stage, log, code = _link(symbols, request["options"], ptx)
        answer = {"result": result, "stage": stage, "log": log, "size": len(code)}
        answers.write(json.dumps(answer).encode() + b"\n" + code)
        answers.flush()


def _symbols(library: ctypes.CDLL) -> dict:
    """The header maps each name to one with the library's version at its end."""
    major, minor = ctypes.c_uint(), ctypes.c_uint()
    library.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor))
    names = (
        *("Create", "AddData", "Complete", "Destroy", "GetLinkedCubinSize", "GetLinkedCubin"),
        *("GetErrorLogSize", "GetErrorLog", "GetInfoLogSize", "GetInfoLog"),
    )
    return {name: getattr(library, f"__nvJitLink{name}_{major.value}_{minor.value}") for name in names}


def _link(symbols: dict, options: list[str], ptx: bytes) -> tuple[int, str, str, bytes]:
    handle = ctypes.c_void_p()
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    result = symbols["Create"](ctypes.byref(handle), ctypes.c_uint32(len(options)), words)
    if result:
        return result, "create", "", b""
    try:
        result = symbols["AddData"](handle, INPUT_PTX, ptx, ctypes.c_size_t(len(ptx)), b"kernel.ptx")
        if result:
            return result, "add", _log(symbols, "Error", handle), b""
        result = symbols["Complete"](handle)
        if result:
            return result, "link", _log(symbols, "Error", handle), b""
        size = ctypes.c_size_t()
        symbols["GetLinkedCubinSize"](handle, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        symbols["GetLinkedCubin"](handle, code)
        return 0, "done", _log(symbols, "Info", handle), code.raw
    finally:
        symbols["Destroy"](ctypes.byref(handle))


def _log(symbols: dict, kind: str, handle: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    symbols[f"Get{kind}LogSize"](handle, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value + 1)
    if size.value:
        symbols[f"Get{kind}Log"](handle, text)
    return text.value.decode("utf-8", "replace")


if __name__ == "__main__":
    # The library may print to stdout; only answers may go there.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    main(sys.argv[1], sys.stdin.buffer, answers)
