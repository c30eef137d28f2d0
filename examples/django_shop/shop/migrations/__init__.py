"""Changes of the shop's tables."""
