"""Storms: processes of producers and workers under load, with kills and pauses, and a ledger of what they did."""
