"""A class: hand out, take in, grade in a sandbox, tell each what they misunderstood."""

TOOLS = "pip install -e '.[classroom]'"  # what a teacher adds to the course
