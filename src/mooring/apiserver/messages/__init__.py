"""The values that pass between the rooms: requests, responses, routes, users and the record of an exchange."""
