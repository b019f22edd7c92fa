# numba is untyped where it is used here: any attribute, any type.
from typing import Any

def __getattr__(name: str) -> Any: ...
