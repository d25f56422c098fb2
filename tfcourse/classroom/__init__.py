"""A class: hand out, take in, grade in a sandbox, tell each what they misunderstood."""
