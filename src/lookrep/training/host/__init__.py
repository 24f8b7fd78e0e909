"""The engine for environments on the host: they step in worker processes while the device acts and learns."""
