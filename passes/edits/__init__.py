"""Declared edits: what a rewrite may ask of the compiler outside its own text.

A rewrite sees one region; a change of a variable's layout concerns the whole kernel. So the rewrite only *declares*
it, in a comment line ahead of its text, and the compiler makes it, at every access of the kernel, or refuses it::

    // edit: pad sym0 row 128->132          rows of 128 bytes become 132 bytes apart
    // edit: new_shared buffer 1024 16      1024 bytes of shared memory, aligned to 16, that the text may use as buffer
    // edit: preload_const sym1             the constant array is copied to shared memory at entry, and read there

A name is that of the region's text (``sym0``), the variable's own, or an input that holds the variable's address
(``%in2``). The text itself is written for the *old* layout: it is spliced, and can be compared with the original,
before the edit is made. What is made is then checked by code that shares nothing with the code that made it
(check.py). Memory that a kernel reads or writes beyond the end of a variable lies elsewhere afterwards, so no edited
candidate is proved but by a proof of its own; as a rule it is ``tested``.
"""

from hybridcc.passes.edits.declared import Edit, NewShared, Pad, PreloadConst, declared, is_edit

__all__ = ["Edit", "NewShared", "Pad", "PreloadConst", "declared", "is_edit"]
