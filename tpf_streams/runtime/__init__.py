"""The composition root: a loaded pipeline, a log and a folder become an application. The only place that knows all."""
