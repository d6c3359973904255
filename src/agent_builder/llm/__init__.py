"""Model access: the trusted catalog, the one client of the provider, and the Broker that bounds every answer."""
