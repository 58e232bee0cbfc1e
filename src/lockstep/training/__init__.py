"""What every training shares: the loop, the trainee with its optimizer, checkpoints, settings, progress, samples."""
