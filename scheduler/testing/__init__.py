"""For writers of backends and for users' own tests."""
