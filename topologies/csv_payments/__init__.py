"""Payments from CSV files: each row waits for a payment provider, and each file comes back as a file of outcomes."""
