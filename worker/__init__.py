"""The fleet: takes messages, asks each id once, stores the answers."""
