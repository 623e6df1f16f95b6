"""How flows are attached, subscribed to and cancelled: what all sources and operators are made of."""
