"""Dead letters: unreadable messages in their topic and failed prompts in `results`, seen and published again."""
