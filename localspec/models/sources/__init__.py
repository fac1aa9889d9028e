"""Where model files come from, one module a source."""
