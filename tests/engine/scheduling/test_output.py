"""What one step is to compute."""

from cluster.wire.sampling import SamplingParams
from engine.request import Request
from engine.scheduling.output import ScheduledRequest, SchedulerOutput, StepShape


def test_a_step_has_the_shape_of_its_runs() -> None:
    request = Request("a", 0, 0, [1], 1, SamplingParams(), [])
    runs = [ScheduledRequest(request, first, n, []) for first, n in ((9, 1), (19, 1), (0, 50))]
    assert SchedulerOutput(runs).shape == StepShape(50, 2, 30)
    assert SchedulerOutput(runs).shape.num_tokens == 52
    assert SchedulerOutput().shape == StepShape(0, 0, 0)
