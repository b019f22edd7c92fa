"""``python -m hybridcc`` is the same as ``hybridcc``."""

from hybridcc.cli import main

main()
