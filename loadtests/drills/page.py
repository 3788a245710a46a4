"""One page about drills: timeline, checks and figures of each; no asset but itself."""

from collections.abc import Sequence
from html import escape

from loadtests.drills.timeline import close_up, kind_colours, kinds_of, shown, timeline_svg
from loadtests.drills.verdict import Verdict

_STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #f5f6f8; color: #1d2939; font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 24px 16px 80px; }
h1 { font-size: 24px; margin: 8px 0 4px; } h2 { font-size: 19px; margin: 0; }
h3 { font-size: 13px; margin: 20px 0 6px; color: #667085; font-weight: 600; }
p { margin: 4px 0; } .soft { color: #667085; }
section { background: #fff; border: 1px solid #e4e7ec; border-radius: 10px; padding: 20px 24px;
  margin: 20px 0; }
.picture { overflow-x: auto; margin-top: 12px; } svg { display: block; max-width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: 4px 12px 4px 0;
  vertical-align: top; border-bottom: 1px solid #f0f2f5; } td.value { white-space: nowrap;
  font-variant-numeric: tabular-nums; } .columns { display: flex; gap: 40px; flex-wrap: wrap; }
.columns > div { flex: 1 1 380px; min-width: 0; } .detail { color: #667085; overflow-wrap: anywhere; }
.badge { font-size: 12px; font-weight: 600; border-radius: 999px; padding: 2px 10px; margin-left: 8px;
  vertical-align: 2px; } .passed { background: #e6f4ea; color: #1e6b34; }
.failed { background: #fdeaea; color: #b42318; } .skipped { background: #eef0f3; color: #667085; }
.mark { font-weight: 700; } .mark.yes { color: #1e7a3c; } .mark.no { color: #c62828; }
.key { display: inline-block; margin-right: 14px; font-size: 12px; color: #475467; }
.key i { display: inline-block; width: 14px; height: 9px; border-radius: 2px; margin-right: 5px; }
pre { background: #f5f6f8; padding: 12px; overflow: auto; max-height: 360px; font-size: 12px; }
a { color: inherit; }
"""
_LINE_KEYS = (
    ("#e4e7ec", "under way, no token yet"),
    ("#e53935", "gap"),
    ("#c62828", "fault"),
    ("#2e7d32", "back in service"),
)


def drill_page(verdicts: Sequence[Verdict], machine: str) -> str:
    """The whole page as HTML."""
    num_passed = sum(verdict.outcome == "passed" for verdict in verdicts)
    num_run = sum(verdict.outcome != "skipped" for verdict in verdicts)
    title = verdicts[0].name if len(verdicts) == 1 else "Drills"
    overview = _overview(verdicts) if len(verdicts) > 1 else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{escape(title)}</h1>"
        f'<p class="soft">{num_passed} of {num_run} passed · {escape(machine)}</p>'
        f"{overview}{''.join(map(_section, verdicts))}</main></body></html>\n"
    )


def _overview(verdicts: Sequence[Verdict]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{escape(v.name)}">{escape(v.name)}</a></td>'
        f'<td><span class="badge {v.outcome}">{v.outcome}</span></td>'
        f'<td class="value">{v.seconds:.0f} s</td><td class="detail">{escape(v.promise)}</td></tr>'
        for v in verdicts
    )
    return f"<section><table>{rows}</table></section>"


def _section(verdict: Verdict) -> str:
    reason = f'<p class="soft">Skipped: {escape(verdict.reason)}</p>' if verdict.reason else ""
    log = ""
    if verdict.log_tail:
        log = f"<h3>The end of the cluster's log</h3><pre>{escape(verdict.log_tail)}</pre>"
    return (
        f'<section id="{escape(verdict.name)}"><h2>{escape(verdict.name)}'
        f'<span class="badge {verdict.outcome}">{verdict.outcome}</span></h2>'
        f'<p class="soft">{escape(verdict.promise)}</p>{reason}{_pictures(verdict)}'
        f'<div class="columns"><div><h3>Checks</h3>{_checks(verdict)}</div>'
        f"<div><h3>Figures</h3>{_figures(verdict)}</div></div>{log}</section>"
    )


def _pictures(verdict: Verdict) -> str:
    history = verdict.history
    if not shown(history):
        return ""
    parts = [f'<div class="picture">{timeline_svg(history)}</div>', _legend(verdict)]
    window = close_up(history)
    if window is not None:
        parts += [
            "<h3>About a fault</h3>",
            f'<div class="picture">{timeline_svg(history, window)}</div>',
        ]
    return "".join(parts)


def _legend(verdict: Verdict) -> str:
    keys = [(colour, kind) for kind, colour in kind_colours(kinds_of(verdict.history)).items()]
    return "<p>" + "".join(
        f'<span class="key"><i style="background:{colour}"></i>{escape(text)}</span>'
        for colour, text in [*keys, *_LINE_KEYS]
    ) + "</p>"  # fmt: skip


def _checks(verdict: Verdict) -> str:
    rows = "".join(
        f'<tr><td><span class="mark {"yes" if c.passed else "no"}">{"✓" if c.passed else "✗"}</span>'
        f'</td><td>{escape(c.label)}<div class="detail">{escape(c.detail)}</div></td></tr>'
        for c in verdict.checks
    )
    return f"<table>{rows}</table>"


def _figures(verdict: Verdict) -> str:
    rows = "".join(
        f'<tr><td>{escape(figure.label)}</td><td class="value">{escape(figure.text)}</td></tr>'
        for figure in verdict.figures
    )
    return f"<table>{rows}</table>"
