"""A report in each format. All numbers come from the one model, and are spelled in one place each (the filters)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridcc.report.model import DiffRow, Report, Speed
from hybridcc.report.plot import plot

if TYPE_CHECKING:
    import jinja2

FORMATS = ("terminal", "markdown", "json", "html")
MOST_ANSWER = 20_000
"""Characters of a prompt or an answer that a page shows; the bundle has the whole."""


def render(report: Report, form: str, *, explain: bool = False) -> str:
    """The text of the report in that format."""
    match form:
        case "json":
            return json.dumps(report.data(), indent=1, sort_keys=True) + "\n"
        case "markdown":
            return _environment(False).get_template("report.md.j2").render(r=report)
        case "html":
            return _environment(True).get_template("report.html.j2").render(r=report, plot=plot, styles=_styles())
        case _:
            return _environment(False).get_template("report.txt.j2").render(r=report, explain=explain)


def speed_text(speed: Speed) -> str:
    """A speed as every format spells it."""
    if speed.ratio is None:
        return f"{speed.kind}({speed.reason})" if speed.reason else speed.kind
    interval = f" [{speed.interval[0]:.2f}, {speed.interval[1]:.2f}]" if speed.interval else ""
    return f"{speed.kind} {speed.ratio:.2f}x{interval}"


def ratio_text(ratio: float | None) -> str:
    return "not measured" if ratio is None else f"{ratio:.2f}x"


def _environment(escape: bool) -> jinja2.Environment:
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "speed": speed_text,
        "ratio": ratio_text,
        "percent": lambda part: f"{100 * part:.1f} %",
        "bound": lambda percent: f"{percent:.1f} %",
        "short": lambda text, most=160: text if len(text) <= most else text[:most] + " …",
        "cell": lambda text: " ".join(str(text).split()).replace("|", "\\|"),
        "cut": lambda text: text if len(text) <= MOST_ANSWER else text[:MOST_ANSWER] + "\n… (the bundle has the rest)",
        "code": _highlighted,
        "patch": _patch,
    }
    return made


def _highlighted(line: str, kind: str) -> str:
    """One line of PTX or SASS as HTML, its tokens marked by Pygments."""
    from markupsafe import Markup
    from pygments import highlight

    if not line.strip():
        return Markup("&nbsp;")
    lexer, formatter = _pygments(kind)
    return Markup(highlight(line, lexer, formatter).rstrip("\n"))


@cache
def _pygments(kind: str) -> tuple[Any, Any]:
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    # SASS has no lexer of its own; an assembler's tells opcodes, registers and numbers apart.
    return get_lexer_by_name("ptx" if kind == "ptx" else "nasm", stripnl=False), HtmlFormatter(nowrap=True)


def _styles() -> dict[str, str]:
    """Colours of tokens, for a light and for a dark page."""
    from pygments.formatters import HtmlFormatter

    return {
        mode: HtmlFormatter(style=style).get_style_defs(".diff")
        for mode, style in (("light", "default"), ("dark", "github-dark"))
    }


def _patch(rows: tuple[DiffRow, ...]) -> str:
    """The rows as lines of a patch."""
    lines: list[str] = []
    for row in rows:
        match row.mark:
            case " ":
                lines.append(f" {row.left}")
            case "…":
                lines.append(f"@@ {row.left} @@")
            case _:
                lines += [f"-{row.left}"] if row.mark in "~-" else []
                lines += [f"+{row.right}"] if row.mark in "~+" else []
    return "\n".join(lines)


