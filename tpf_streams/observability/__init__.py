"""What the application tells of itself while it runs: facts, counted after the commit that made them true."""
