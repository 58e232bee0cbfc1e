"""The process that computes: models, batches and boundaries. It never opens the database or the network."""
