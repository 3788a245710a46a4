"""A report as a page of text."""

from collections.abc import Iterator

from loadtests.report import Distribution, Report


def report_text(report: Report) -> str:
    """The whole report for a terminal, without a line end after the last line."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.url}  {report.model}  {report.load}"
    yield ""
    yield f"requests          {report.completed} of {report.requests} completed in {report.duration_seconds:.2f} s"
    yield f"throughput        {report.output_tokens_per_second:.1f} output tokens/s"
    yield f"                  {report.total_tokens_per_second:.1f} tokens/s, prompts included"
    yield f"                  {report.requests_per_second:.2f} requests/s"
    yield f"tokens            {report.output_tokens} output, {report.prompt_tokens} prompt, of which {report.cached_tokens} from the prefix cache"
    yield f"tokens per event  {report.tokens_per_event:.2f}"
    yield ""
    yield "milliseconds      " + "".join(f"{n:>10}" for n in ("mean", "p50", "p90", "p99", "max"))
    yield _row("TTFT", report.ttft_seconds)
    yield _row("TPOT", report.tpot_seconds)
    yield _row("ITL", report.itl_seconds)
    yield _row("E2E", report.e2e_seconds)
    yield ""
    yield f"moved requests    {report.moved_requests}"
    yield from _server_lines(report)
    yield from _error_lines(report)


def _row(name: str, values: Distribution | None) -> str:
    if values is None:
        return f"{name:<18}" + "         –" * 5
    numbers = (values.mean, values.p50, values.p90, values.p99, values.maximum)
    return f"{name:<18}" + "".join(f"{number * 1000:>10.1f}" for number in numbers)


def _server_lines(report: Report) -> Iterator[str]:
    if report.engine_tokens is None:
        yield "engines           unknown: no /metrics before and after that tells"
        return
    total = sum(report.engine_tokens.values())
    for engine, tokens in report.engine_tokens.items():
        share = tokens / total if total else 0.0
        yield f"engine {engine:<10} {tokens} output tokens, {share:.1%}"
    if report.engine_tokens and total:
        mean = total / len(report.engine_tokens)
        yield f"imbalance         {max(report.engine_tokens.values()) / mean:.3f} (most loaded / mean)"
    yield f"migrations        {_counts(report.migrations)}"
    yield f"engine restarts   {_counts(report.engine_restarts)}"


def _error_lines(report: Report) -> Iterator[str]:
    if not report.errors:
        yield "errors            none"
    for kind, count in report.errors.items():
        yield f"error             {count} × {kind}, e.g. {report.error_examples[kind] or '–'}"


def _counts(counts: dict[str, int] | None) -> str:
    if not counts:
        return "none"
    return ", ".join(f"{count} × {label}" for label, count in counts.items())
