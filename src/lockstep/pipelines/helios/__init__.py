"""Helios: long video chunk by chunk, each told what came before; Base at one size, Mid and Distilled in a pyramid."""
