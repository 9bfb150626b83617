"""One address for many agents and planes: MCP over streamable HTTP, and a small JSON API.

`tokens` is the file of those who may ask; `web` opens planes on demand, has the table of what the
JSON API takes, gives and does, checks and answers each request, and listens until SIGTERM; it needs
the extra `[mcp]`.
"""
