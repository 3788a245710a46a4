"""What the scheduler decides: pure, no tensors, sockets or clocks."""
