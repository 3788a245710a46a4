"""Failover drills: break a cluster on purpose, under load, and check that nobody noticed."""
