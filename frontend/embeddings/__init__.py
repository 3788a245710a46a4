"""Embeddings in OpenAI's shape: prompts that engines pool to vectors."""
