"""What an engine does otherwise on a CUDA device: attention kernels, decode graphs, memory."""
