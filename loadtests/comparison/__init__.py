"""Routing policies side by side: the same arrivals, real processes, one policy after the other."""
