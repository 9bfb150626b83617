"""The plane as tools of an MCP client: six tools, three resources and handles, over two pipes.

`schemas` describes the tools and checks their arguments; `tools` and `resources` do the work on a
plane (`Desk`) without the SDK, and keep every answer within its tokens. `worker` owns the open
plane and the threads that use it; `server` offers both to the official SDK, and `stdio` runs the
server and knows which requests are unanswered. The last three need the extra `[mcp]`.
"""
