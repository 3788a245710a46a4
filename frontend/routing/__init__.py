"""How an engine is chosen: what is known of the engines, and the policies that decide by it."""
