"""Messages of the frameworks, by chance: of each form that an adapter tells apart."""

from __future__ import annotations


def words(chance):
    return " ".join(
        chance.choices(["heron", "nest", "grey", "öl", "鷺", "line\nbreak", '"q"'], k=4)
    )


def item(chance, step):
    """An item of the Responses API."""
    said = f"{words(chance)} {step}"
    return chance.choice([
        {"role": "user", "content": said},
        {"role": "user", "content": ""},
        {"role": "developer", "content": said},
        {"role": "user", "content": [{"type": "input_text", "text": said},
                                     {"type": "input_image", "image_url": "data:," + "x" * step}]},
        {"role": "user", "content": [{"type": "input_text", "text": said},
                                     {"type": "input_text", "text": "and"}]},
        {"type": "message", "id": f"m{step}", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": said, "annotations": []}]},
        {"type": "message", "id": f"r{step}", "role": "assistant", "status": "completed",
         "content": [{"type": "refusal", "refusal": said}]},
        {"type": "function_call", "name": "look", "arguments": '{"at": "tree"}', "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": said},
        {"type": "function_call_output", "call_id": "c",
         "output": [{"type": "input_text", "text": said}]},
        {"type": "reasoning", "id": f"o{step}", "summary": [{"type": "summary_text", "text": said}]},
        {"type": "computer_call", "action": {"type": "click", "x": 1}, "call_id": "d"},
    ])  # fmt: skip


def adk_event(chance, step):
    from google.adk.events import Event, EventActions
    from google.genai import types

    said = f"{words(chance)} {step}"
    parts = chance.choice([
        [types.Part(text=said)],
        [types.Part(text=said), types.Part(text="more")],
        [types.Part(function_call=types.FunctionCall(name="look", args={"n": step}))],
        [types.Part(function_response=types.FunctionResponse(name="look", response={"n": step}))],
        None,
    ])  # fmt: skip
    keys = ["k", "l", "user:k", "app:k", "temp:k"]
    delta = {key: [step, said] for key in keys if chance.random() < 0.3}
    return Event(
        author=chance.choice(["user", "agent"]),
        invocation_id=f"i{step}",
        id=f"e{step}",
        timestamp=1_750_000_000.0 + step,
        content=None if parts is None else types.Content(role="user", parts=parts),
        actions=EventActions(state_delta=delta),
        partial=chance.random() < 0.05,
    )


def model_message(chance, step):
    from pydantic_ai import messages as kinds

    said = f"{words(chance)} {step}"
    call = kinds.ToolCallPart("look", {"at": step}, tool_call_id=f"c{step}")
    returned = kinds.ToolReturnPart("look", said, tool_call_id=f"c{step}")
    return chance.choice([
        kinds.ModelRequest(parts=[kinds.UserPromptPart(said)]),
        kinds.ModelRequest(parts=[kinds.SystemPromptPart("Be brief"), kinds.UserPromptPart(said)]),
        kinds.ModelRequest(parts=[kinds.UserPromptPart([said, "and more"])]),
        kinds.ModelRequest(parts=[returned]),
        kinds.ModelRequest(parts=[returned, kinds.UserPromptPart(said)]),
        kinds.ModelResponse(parts=[kinds.TextPart(said)]),
        kinds.ModelResponse(parts=[kinds.TextPart(said), call]),
        kinds.ModelResponse(parts=[call]),
        kinds.ModelResponse(parts=[kinds.ThinkingPart(said)]),
    ])  # fmt: skip


def chat_message(chance, step):
    from llama_index.core.base.llms.types import ToolCallBlock
    from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock

    said = f"{words(chance)} {step}"
    call = ToolCallBlock(tool_name="look", tool_kwargs={"at": step}, tool_call_id="c")
    return chance.choice([
        ChatMessage(role="user", content=said),
        ChatMessage(role="system", content="Be brief"),
        ChatMessage(role="assistant", content=said, additional_kwargs={"n": step}),
        ChatMessage(role="tool", content=said, additional_kwargs={"tool_call_id": "c"}),
        ChatMessage(role="assistant", blocks=[call]),
        ChatMessage(role="user", blocks=[TextBlock(text=said), TextBlock(text="and")]),
        ChatMessage(role="user", blocks=[TextBlock(text=said), ImageBlock(url="http://a.b/c")]),
        ChatMessage(role="user", content=""),
    ])  # fmt: skip
