"""Tests that only concern the memory backend."""
