"""How torch's two exporters write our nodes, and the operators that a user registers."""
