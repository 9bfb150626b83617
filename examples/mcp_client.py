"""An MCP client, with the official SDK: starts `memplane mcp`, stores a fact and finds it again.

pip install 'memplane[mcp]'
python examples/mcp_client.py [FOLDER]
"""

import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import memplane


async def main(folder: str) -> None:
    """Name the tools, store a statement, search for it."""
    memplane.init(folder).close()
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "memplane", "mcp", "--home", os.path.abspath(folder)],  # noqa: PTH100
        env={**os.environ},
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        tools = (await client.list_tools()).tools
        print("tools:", ", ".join(sorted(tool.name for tool in tools)))
        await client.call_tool(
            "memory_store",
            {"key": "mast.wood", "content": "The mast is spruce", "type": "fact"},
        )
        found = await client.call_tool("memory_search", {"query": "what is the mast made of?"})
        print("found:", "The mast is spruce" in str(found.content))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "mcp-plane"))
