"""Fits the tables of the cost model, placement/costs/fitted.toml, to measurements. See ../fit_costs.py."""
