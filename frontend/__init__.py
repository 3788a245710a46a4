"""HTTP in, tokens out: one of several processes that share the listening socket."""
