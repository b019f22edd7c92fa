# The bindings are compiled modules without stubs.
from typing import Any

def __getattr__(name: str) -> Any: ...
