"""What all rules share: how findings are made, worded and told apart, and how evidence is quoted."""
