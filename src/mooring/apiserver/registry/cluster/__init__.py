"""The objects that the server writes itself: initial ones, APIServices, its own Service, and repaired allocations."""
