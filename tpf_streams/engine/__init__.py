"""The shell: tasks that poll, decide, commit and then perform. It knows ports and core, and no adapter."""
