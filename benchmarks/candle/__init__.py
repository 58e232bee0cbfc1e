"""Our models beside the traces that Candle wrote: where they first differ, why, and what is left behind that."""
