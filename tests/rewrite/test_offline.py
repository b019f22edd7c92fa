"""No network: with the network blocked, a build with no endpoint named opens no socket and asks no name server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from hybridcc.passes.rewrite.rejection import NEXT_STEPS

ROOT = Path(__file__).parents[2]

WATCHED = """
import socket
import sys

def watch(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        print("REACHED OUT", event, arguments, flush=True)
        raise OSError("the network is blocked")
    if event == "socket.__new__" and arguments[1] in (socket.AF_INET, socket.AF_INET6):
        print("OPENED A SOCKET", arguments[1:], flush=True)
        raise OSError("the network is blocked")
    if event == "socket.connect" and isinstance(arguments[1], tuple):  # a path is a local pipe
        print("REACHED OUT", event, arguments, flush=True)

sys.addaudithook(watch)
"""


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", WATCHED + script, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_build_with_no_endpoint_named_opens_no_socket(tmp_path: Path) -> None:
    script = """
from hybridcc.building import build
(made,) = build(sys.argv[1], sys.argv[2], arch=["sm_80"], accept="tested", answers=1)
print("built", len(made.record.architectures[0].candidates))
"""
    printed = run(script, str(ROOT / "examples" / "colsum.py"), str(tmp_path / "out"))
    assert "built 1" in printed
    assert "REACHED OUT" not in printed
    assert "OPENED A SOCKET" not in printed


def test_the_watch_sees_an_endpoint_being_reached() -> None:
    script = """
from hybridcc.errors import ModelError
from hybridcc.passes.rewrite import open_rewriter
from tests.rewrite.made import prompt
rewriter = open_rewriter("openai:m@http://127.0.0.1:9/v1")
print("opened")
try:
    rewriter.propose(prompt(), count=1, seed=0)
except ModelError as error:
    print(error)
"""
    printed = run(script)
    opened, _, asked = printed.partition("opened")
    assert "REACHED OUT" not in opened
    assert "OPENED A SOCKET" not in opened
    assert "REACHED OUT" in asked or "OPENED A SOCKET" in asked
    assert "cannot be reached" in asked


def test_every_rejection_code_is_documented_and_no_other() -> None:
    table = (ROOT / "docs" / "rewriters.md").read_text().partition("## What is taken from an answer")[2]
    assert re.findall(r"^\| `([A-Z_]+)` \|", table, re.MULTILINE) == list(NEXT_STEPS)
