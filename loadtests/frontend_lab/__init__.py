"""What a streamed token costs a frontend, in a cluster and taken apart."""
