"""From solutions/ to notebooks/: for those who write lessons and those who teach with them."""
