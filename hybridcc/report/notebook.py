"""What ``kernel.report()`` gives: the short text, which a notebook shows as the whole page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hybridcc.records import KernelRecord


class Told(str):
    """The text; ``records`` are what it was made from."""

    records: tuple[KernelRecord, ...] = ()

    @classmethod
    def of(cls, text: str, records: Sequence[KernelRecord]) -> Told:
        told = cls(text)
        told.records = tuple(records)
        return told

    def _repr_html_(self) -> str:
        """One page for each, in a frame of its own so that its styles stay there."""
        from hybridcc.report.from_bundle import of_record
        from hybridcc.report.render import render

        if not self.records:
            return f"<pre>{html.escape(self)}</pre>"
        pages = (html.escape(render(of_record(record), "html"), quote=True) for record in self.records)
        return "\n".join(
            f'<iframe srcdoc="{page}" style="width: 100%; height: 40rem; border: 0"></iframe>' for page in pages
        )
