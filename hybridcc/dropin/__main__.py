"""``python -m hybridcc.dropin`` is ``hybridcc-ptxas``."""

from hybridcc.dropin.main import main

main()
