"""A typed client and informers over exchangeable transports."""
