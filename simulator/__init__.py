"""A fake OpenAI-compatible endpoint for trials and tests, with scripted answers, limits and faults."""
