"""The paged KV cache as numbers: blocks, tables, prefixes."""
