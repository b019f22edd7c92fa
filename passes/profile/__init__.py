"""Where a kernel spends its time: estimated from its text, executed on the CPU, or measured by a clone."""
