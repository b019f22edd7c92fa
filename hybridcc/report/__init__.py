"""What was found out, told in one set of words: terminal.py prints it, the manifest is the same as JSON."""
