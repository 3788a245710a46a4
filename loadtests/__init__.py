"""Load tests: `python -m loadtests` drives a running server and says what its clients saw."""
