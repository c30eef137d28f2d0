"""Tests of the lower layers of the core, one file per module."""
