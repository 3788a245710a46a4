"""How the processes are seen: logs, metrics, process titles, signals."""
