"""A cluster on a fake clock: the balancer of production, engines of a cost model, any load."""
