"""Dynamic resource allocation: ResourceClaims, and the drivers that serve them."""
