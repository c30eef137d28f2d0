"""Reliable, distributed, delayed job execution."""
