"""How torch's two exporters write our nodes, and operators that a user registers."""
