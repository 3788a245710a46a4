"""Engines that make their tokens up, at a set pace: for load tests and drills. No torch."""
