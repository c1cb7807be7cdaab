"""What all rules share: how a finding is made, quoted, worded and told apart."""
