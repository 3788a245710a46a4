"""All drills, in the order in which they are shown and run."""

from loadtests.drills import (
    client_drills,
    crash_loop_drill,
    every_index_drill,
    freeze_drills,
    http_drills,
    kill_drills,
    machine_drills,
    memory_drills,
    network_drills,
    operation_drills,
    overload_drills,
    poison_drills,
    process_drills,
    soak_drill,
    wire_drills,
)
from loadtests.drills.drill import Drill

MODULES = (
    kill_drills,
    freeze_drills,
    process_drills,
    network_drills,
    memory_drills,
    poison_drills,
    crash_loop_drill,
    client_drills,
    overload_drills,
    operation_drills,
    wire_drills,
    http_drills,
    machine_drills,
    every_index_drill,
    soak_drill,
)


def all_drills() -> tuple[Drill, ...]:
    """Every drill there is."""
    return tuple(drill for module in MODULES for drill in module.DRILLS)
