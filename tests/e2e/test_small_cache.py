"""A KV cache too small for the load: preemption, and every answer as it would have been."""

from pathlib import Path

import pytest

from tests.e2e.conftest import Launch
from tests.e2e.test_faults import bodies, check_equal
from tests.support.streaming_client import StreamingClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


async def test_preempted_requests_get_the_answers_they_would_have_got(
    launch: Launch, tiny_model: Path
) -> None:
    roomy = launch(f"--model={tiny_model}", "--kv-cache-memory=64MiB")
    async with StreamingClient(roomy.url) as client:
        expected = await client.complete_all(bodies(16, 300), concurrency=16)
    assert roomy.metric("quadriga_num_preemptions_total") == 0
    roomy.stop()

    tight = launch(f"--model={tiny_model}", "--kv-cache-memory=256KiB", "--check-invariants")
    async with StreamingClient(tight.url) as client:
        answers = await client.complete_all(bodies(16, 300), concurrency=16)
    check_equal(answers, expected)
    assert tight.metric("quadriga_num_preemptions_total") > 0
    wait_until(tight.is_idle, 5)

    answer = tight.post("/v1/completions", prompt=[5] * 900, max_tokens=3000)
    assert answer.status_code == 400
    assert "KV cache" in answer.json()["error"]["message"]
    assert tight.metric("quadriga_engine_up") == 1
