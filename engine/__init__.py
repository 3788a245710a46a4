"""One replica: a device, a paged KV cache, a scheduler."""
