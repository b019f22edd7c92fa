"""frontends: see docs/architecture.md for what belongs in this room."""

if not __name__.startswith("hybridcc."):
    raise ImportError(
        "import hybridcc.frontends instead of frontends: a second import would make a second copy of every class"
    )
