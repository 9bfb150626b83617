"""Install memplane into coding agents, and uninstall it without a trace.

`entries`: what each agent runs, where its settings lie, the hooks and the MCP server in them.
`guidance`: the skill, the section of AGENTS.md, and the switch of the agent's own memory.
`settings_files`: edits of files of other people as text, reading and replacing them, backups, and
the record of what an install did. `install`: all of it for one agent.
"""
