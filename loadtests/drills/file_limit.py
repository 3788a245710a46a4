"""The limit of open files of this process, which many connections need."""

import resource

from loadtests.drills.drill import DrillSkipped


def raise_file_limit(wanted: int) -> None:
    """Allow this process so many open files. Raises DrillSkipped if it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise DrillSkipped(f"the limit of open files is {hard}; {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
