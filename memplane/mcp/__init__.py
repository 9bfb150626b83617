"""The plane as tools of an MCP client: six tools, three resources and handles, over two pipes.

`schemas` says what the tools take and give, `arguments` holds a call to it; `storing`, `reading`,
`curating` and `resources` work at a `desk` on the plane and know nothing of MCP; `fitting` keeps
every answer within its tokens. `worker` has the open plane and the few threads in which all of that
runs; `server` puts it before the official SDK, `stdio` before stdin and stdout, where `pending`
knows what is still to be answered. These four alone need the extra `[mcp]`.
"""
