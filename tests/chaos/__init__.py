"""
Chaos: producers and workers at work while everything that can fail does, and proofs that nothing was lost.

    python -m tests.chaos --backend redis --minutes 10 --seed 7

Rooms: plan (what is done when, from a seed), arena (the store and how it is hurt), office (a producer's process), crew
(a worker's process), ledger (what they write down, on disk), show (runs it all), memory (the same in one process),
proofs (what must be true afterwards).
"""
