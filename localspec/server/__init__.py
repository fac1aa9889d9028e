"""An OpenAI-compatible endpoint on this machine, and the client through which commands use a running engine."""
