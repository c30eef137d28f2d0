"""Tests of what is special to the memory backend."""
