"""ControlNets: side networks that steer a UNet by a picture."""
