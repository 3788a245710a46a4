"""When an engine is held to hang. Pure: progress counts, not a side thread's sign of life."""

from cluster.wire.messages import LoadReport

LONGEST_STEPS_BEFORE_HUNG = 10


def engine_verdict(
    report: LoadReport, silence_seconds: float, hang_timeout: float, awake_seconds: float
) -> str | None:
    """Why an engine that serves is dead, by its newest report, which is so old; None if it is not.

    `awake_seconds` is for how long whoever judges has not been paused: when the whole machine stood
    still, the engine's clock ran on as well, and what it says of that time proves nothing.
    """
    if silence_seconds > hang_timeout:
        return silent(silence_seconds)
    limit = max(hang_timeout, LONGEST_STEPS_BEFORE_HUNG * report.predicted_step_seconds)
    stuck = min(report.seconds_since_step + silence_seconds, awake_seconds)
    if report.waiting + report.running > 0 and stuck > limit:
        return f"hung: no step finished for {stuck:.1f} s (limit {limit:.1f} s)"
    return None


def silent(seconds: float) -> str:
    """The cause of death of a process that says nothing."""
    return f"silent: no sign of life for {seconds:.1f} s"
