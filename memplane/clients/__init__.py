"""Install memplane into coding agents, and uninstall it without a trace.

`agents`: what each agent runs and where its settings lie. `jsontext` and `tomltext`: edits of files
of other people as text. `entries`: the hooks and the MCP server in them. `files`: reading and
replacing them, backups, and the record of what an install did. `install`: all of it for one agent.
"""
