"""The roof: the `launch` and `cluster` commands, and the supervisor behind them."""
