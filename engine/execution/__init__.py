"""The only place with torch: weights, forward pass, attention, sampling."""
