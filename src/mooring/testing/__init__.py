"""For tests, ours and our users': builders, a mock clock, the replay of recorded cases."""
