"""The `cluster` command: look at a running cluster, operate it, drill it."""
