"""Tools: what a request says of them, and the calls in what a model writes."""
