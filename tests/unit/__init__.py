"""Tests of the core's lower floors, one file a room."""
