"""runtime: see docs/architecture.md for what belongs in this room."""

if not __name__.startswith("hybridcc."):
    raise ImportError(
        "import hybridcc.runtime instead of runtime: a second import would make a second copy of every class"
    )
