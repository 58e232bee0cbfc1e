"""Text encoders: token ids -> hidden states. One model family, one file."""
