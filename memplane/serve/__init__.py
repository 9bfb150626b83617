"""One address for many agents and planes: MCP over streamable HTTP, and a small JSON API.

`tokens` is the file of those who may ask; `planes` opens planes on demand; `routes` is the table of
what the JSON API takes, gives and does, from which its OpenAPI document is made; `web` checks each
request and answers it; `run` listens until SIGTERM. The last two need the extra `[mcp]`.
"""
