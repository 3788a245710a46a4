"""A folder for PYTHONPATH, which lets the frontends of a cluster be profiled."""
