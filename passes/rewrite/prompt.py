"""From a region to the text that a language model is given.

The text is a pure function of the region, its facts, the architecture's figures and the template: no measured number,
no mangled name, no path. It holds only figures that matter to the region, so that architectures which agree in them
share a prompt. Its SHA-256 is the key under which answers are recorded. The wording lives in prompt.j2, in
examples/ and in techniques/; whoever changes them raises TEMPLATE_VERSION and records every answer again.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hybridcc.errors import ModelError

if TYPE_CHECKING:
    import jinja2

    from hybridcc.passes.kernel import Kernel
    from hybridcc.passes.regions import Region

TEMPLATE_VERSION = "2"
TEMPLATE = "prompt.j2"

_HEAD = re.compile(r"hybridcc rewrite prompt, template (\S+)\n")
_FOLLOW_UP = re.compile(r"^hybridcc follow-up to prompt ([0-9a-f]{64}), round \d+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Prompt:
    """``hash`` is the SHA-256 of ``text`` in hexadecimal; the text names the template's version in its first line.

    ``region`` is the key of the region's canonical text, empty for a prompt read back from a file. ``root`` is the
    hash of the prompt that this one follows up (feedback.py), empty for a first prompt.
    """

    text: str = field(repr=False)
    hash: str
    template_version: str
    region: str = ""
    root: str = ""
    source: tuple[Region, Kernel] | None = field(default=None, repr=False, compare=False)
    """The region and its kernel, for rewriters that read more than the text; None for a prompt read from a file."""


def build(region: Region, kernel: Kernel) -> Prompt:
    """The prompt for a region that may be rewritten, on the architecture that ``kernel`` was compiled for.

    One of which no figures are known is taken for the newest of which there are. Raises ModelError for a region that
    must not be rewritten (``region.ineligible`` says why): it has no text.
    """
    from hybridcc.passes.profile.estimate import model_target
    from hybridcc.passes.rewrite import examples, sections, situation
    from hybridcc.passes.rewrite.hardware import hardware
    from hybridcc.passes.rewrite.layout import filled, listed

    if not region.text:
        raise ModelError(
            f"region {region.id} is not offered for rewriting ({region.ineligible})",
            next_step="ask for the regions that are eligible",
        )
    on = model_target(kernel.arch)
    found = situation.situation(region, on)
    right = examples.right_for(found.traits)
    text = template(TEMPLATE).render(
        version=TEMPLATE_VERSION,
        traits=found.traits,
        techniques=listed(situation.suggestions(found)),
        inputs=sections.inputs(region),
        outputs=sections.outputs(region),
        parameters=sections.parameters(region, kernel),
        effects=str(region.effects),
        loops=listed(sections.loops(region)),
        text=sections.without_declarations(region.text),
        facts=sections.facts(region, kernel),
        profile=listed(situation.profile(region, found)),
        lints=listed(situation.lints(found)),
        hardware=listed(hardware(region, on, found.busiest, kernel.launch_bounds.max_threads)),
        right=right,
        interface=filled(right.interface),
        before=sections.without_declarations(right.before),
        wrong=listed(wrong.words for wrong in examples.wrong_for(found.traits)),
        input_names=sections.span_of_names("%in", len(region.live_in)),
        paddable=situation.paddable(region, found),
        output_names=sections.span_of_names("%out", len(region.live_out)),
    )
    ascii_text = text.encode("ascii", "backslashreplace").decode("ascii")
    return Prompt(ascii_text, digest(ascii_text), TEMPLATE_VERSION, region.key, source=(region, kernel))


def of_text(text: str) -> Prompt:
    """The prompt whose text was kept in a file. Raises ModelError for a text that is no prompt."""
    head = _HEAD.match(text)
    if head is None:
        raise ModelError(
            "the text is no hybridcc prompt: its first line names no template",
            next_step="export prompts with `hybridcc prompts`",
        )
    followed = _FOLLOW_UP.search(text)
    return Prompt(text, digest(text), head.group(1), root=followed.group(1) if followed else "")


def digest(text: str) -> str:
    """The hash under which a prompt is recorded."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@cache
def template(name: str) -> jinja2.Template:
    """A template beside this file."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # PTX for a model, not a page
        block_start_string="{!",  # PTX has vectors of registers: {%f0, %f1}
        block_end_string="!}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)
