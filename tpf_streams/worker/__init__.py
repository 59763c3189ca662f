"""The engine as a service of a Faust worker."""
