"""Servers side by side: the same seeded load, one server after the other, round by round."""
