"""What agents work on: tasks, sessions, handles that open them, and what is forgotten."""
