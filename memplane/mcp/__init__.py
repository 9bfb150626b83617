"""The plane as tools of an MCP client: seven tools, three resources and handles.

`tools` describes the tools, checks their arguments and does the work on a plane (`Desk`) without
the SDK; it keeps every answer within its tokens. `server` offers it to the official SDK over two
pipes, owns the open plane and the threads that use it, and needs the extra `[mcp]`.
"""
