"""Proofs that two kernels are equal for every input.

What must be right, in reading order: ``terms``, ``bitvector``, ``memory``, ``rewrite`` (values and their normal
forms), ``solver`` and ``backends`` (conditions), ``context`` (what a path knows), ``entry`` and ``premises`` (what
may be taken for granted), ``program``, ``reading``, ``term_algebra``, ``machine``, ``state`` (PTX as terms),
``contraction``, ``product``, ``certificate`` and ``checker`` (the judge).

What may be wrong and only loses proofs: ``interpretation``, ``sampling``, ``trace``, ``alignment``, ``two_adic``,
``guess``, ``search``, ``attempt``.
"""
