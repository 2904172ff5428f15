"""What may be written: defaulting, mutation, validation and ratcheting, as pure functions."""
