"""The language the processes speak: msgpack structs over ZeroMQ (`docs/protocol.md`)."""
