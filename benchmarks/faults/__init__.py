"""The fault benchmark: known faults and harmless changes planted in tiny models,
to measure what `lockstep.parity` finds."""
