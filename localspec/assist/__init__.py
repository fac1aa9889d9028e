"""Code-assist: edit files, complete at the cursor; prompts, regions, diffs. No screen, no terminal."""
