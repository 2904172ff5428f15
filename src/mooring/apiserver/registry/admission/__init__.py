"""What writes pass before they are stored: lookups, field managers, policies and webhooks, and access checks."""
