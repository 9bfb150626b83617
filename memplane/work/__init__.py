"""What agents work on: tasks, sessions, the handles that open them, and changes to memories."""
