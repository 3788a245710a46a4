import pytest

from frontend.tools.tool_formats import TOOL_FORMATS, mistral_call_id, pick_tool_format
from frontend.tools.tool_parser import FirstCallOnly
from tests.frontend.tools.cutting import calls_of, content_of, parse


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("return json within <tool_call></tool_call> tags", "hermes"),
        ("{{- '[TOOL_CALLS][' }}", "mistral"),
        ("{{- '<|python_tag|>' + call }}", "llama3_json"),
        ("[func_name1(params_name1=params_value1)]", "pythonic"),
        ("{{ tools | tojson }}", "json"),
        (None, "json"),
    ],
)
def test_the_format_is_picked_by_what_the_template_writes(template: str | None, name: str) -> None:
    assert pick_tool_format("auto", template) is TOOL_FORMATS[name]


def test_a_named_format_is_taken_whatever_the_template_says() -> None:
    assert pick_tool_format("mistral", "<tool_call>") is TOOL_FORMATS["mistral"]


def test_ids_are_such_as_the_models_templates_take() -> None:
    assert TOOL_FORMATS["hermes"].new_call_id().startswith("call_")
    call_id = mistral_call_id()
    assert len(call_id) == 9
    assert call_id.isalnum()


def test_later_calls_are_left_out_where_only_one_is_wanted() -> None:
    text = "a[TOOL_CALLS]f{}b[TOOL_CALLS]g{}c"
    pieces = parse(FirstCallOnly(TOOL_FORMATS["mistral"].new_parser()), text)
    assert calls_of(pieces) == [("f", "{}")]
    assert content_of(pieces) == "abc"
