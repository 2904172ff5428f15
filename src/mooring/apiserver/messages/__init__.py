"""The values that the parts of the API server exchange: requests, responses, routes, users, exchanges."""
