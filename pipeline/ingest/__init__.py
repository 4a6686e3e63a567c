"""How changes enter: requests become events that the broker holds."""
