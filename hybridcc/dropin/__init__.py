"""``hybridcc-ptxas``: ptxas to whoever calls it, with proved rewrites in between.

    command_line.py   what of ptxas's own command line has to be understood
    main.py           the process that the build calls; whatever goes wrong in it, ptxas has the last word
    worker.py         the process that does the work, and that may fail
"""
