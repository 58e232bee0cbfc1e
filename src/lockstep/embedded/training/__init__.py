"""How the embedded model is made: data, tokenizer, autoencoder, text encoder and UNet."""
