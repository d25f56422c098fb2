"""tfcourse beside the implementations that others use, with the same weights."""
