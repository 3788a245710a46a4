"""Embeddings through the whole cluster, against transformers' hidden states of the same weights."""

import openai
import pytest
import torch

from cluster.config import load_config
from tests.support.launched_cluster import LaunchedCluster, embedded_model
from tests.support.questions import QUESTIONS
from tests.support.reference_model import ReferenceModel

pytestmark = pytest.mark.drill

INPUTS = QUESTIONS[::8]
TOLERANCE = 1e-4


@pytest.mark.parametrize("kv_cache_dtype", ["float32", "auto"])
def test_vectors_are_those_of_transformers(kv_cache_dtype: str) -> None:
    flags = ("--dp=2", f"--kv-cache-dtype={kv_cache_dtype}", *embedded_model())
    cluster = LaunchedCluster(*flags).wait_until_ready()
    try:
        vectors = {pooling: ask(cluster, pooling) for pooling in ("mean", "last")}
        folder = load_config(cluster.run_directory / "cluster.json").model_directory
    finally:
        cluster.close()
    reference = ReferenceModel(folder)
    differences = []
    for index, question in enumerate(INPUTS):
        states = reference.hidden_states(reference.tokenizer(question).input_ids)
        for pooling, state in (("mean", states.mean(0)), ("last", states[-1])):
            expected = state / state.norm()
            ours = torch.tensor(vectors[pooling][index])
            differences.append(float((ours - expected).abs().max()))
    print(f"{kv_cache_dtype}: largest difference {max(differences):.1e}")
    assert max(differences) < TOLERANCE * (1 if kv_cache_dtype == "float32" else 10)


def ask(cluster: LaunchedCluster, pooling: str) -> list[list[float]]:
    """The vectors of all questions, by the official client."""
    client = openai.OpenAI(base_url=f"{cluster.url}/v1", api_key="none", max_retries=0)
    model = client.models.list().data[0].id
    answer = client.embeddings.create(model=model, input=INPUTS, extra_body={"pooling": pooling})
    return [datum.embedding for datum in answer.data]
