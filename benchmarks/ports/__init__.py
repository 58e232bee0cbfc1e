"""A UNet ported to other frameworks the way people port it: other names, layouts and splits, with published bugs."""
