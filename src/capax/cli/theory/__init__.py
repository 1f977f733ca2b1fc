"""Commands about formulas, covers, bounds and the statements behind them."""
