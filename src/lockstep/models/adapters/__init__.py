"""Models that steer a UNet beside the prompt: T2I-Adapters by a picture's structure, IP-Adapters by its content."""
