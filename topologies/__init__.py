"""Pipelines to run and to learn from. Each folder holds its pipeline.yaml and the code of its steps."""
