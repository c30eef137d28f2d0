"""Migrations of the shop's tables."""
