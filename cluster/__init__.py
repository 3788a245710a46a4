"""What makes the processes one cluster: errors, config, the wire, telemetry, and `launch`."""
