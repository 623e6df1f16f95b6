"""Groups of tools: what is available, in which order it is told, and how a model chooses."""

from __future__ import annotations

import pytest
from calling import use
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.tools import Toolkit, tool
from agentscope_rx.tools.meta_tool import MetaTool


@tool
def clock() -> str:
    """The time."""
    return "noon"


@tool
def browse(url: str) -> str:
    """Open a page.

    Args:
        url: Its address.
    """
    return f"page {url}"


@tool(requires_approval=True)
def click(id: int) -> str:
    """Click on something."""
    return f"clicked {id}"


def grouped(*, meta: bool = False) -> Toolkit:
    toolkit = Toolkit([clock])
    toolkit.create_tool_group("web", "Pages of the web", notes="Close what you open.")
    toolkit.create_tool_group("desk", "What is on the desk")
    toolkit.register(browse, group="web")
    toolkit.register(click, group=["web", "desk"])
    if meta:
        toolkit.register_meta_tool()
    return toolkit


def told(toolkit: Toolkit) -> list[str]:
    return [schema.name for schema in toolkit.schemas()]


def ask(toolkit: Toolkit, name: str, **input: object) -> ToolResultBlock:
    event = toolkit.call(use(name, **input)).run()
    assert isinstance(event, ToolResultBlock)
    return event


@pytest.mark.spec("case 86", "case 87", "case 112")
def test_a_tool_is_available_while_one_of_its_groups_is_active():
    """Any active group suffices; ungrouped tools are always there."""
    toolkit = grouped()
    assert told(toolkit) == ["clock"]
    toolkit.update_tool_groups(["desk"], active=True)
    assert told(toolkit) == ["clock", "click"]
    toolkit.update_tool_groups(["web"], active=True)
    assert told(toolkit) == ["clock", "browse", "click"]
    toolkit.update_tool_groups(["desk"], active=False)
    assert told(toolkit) == ["clock", "browse", "click"] and toolkit.active_groups == ("web",)
    toolkit.update_tool_groups(["web"], active=False)
    assert told(toolkit) == ["clock"]
    assert toolkit.names == ("clock", "browse", "click") and len(toolkit) == 3 and "browse" in toolkit


@pytest.mark.spec("case 85", "case 87")
def test_a_call_of_an_inactive_tool_says_why_and_how():
    result = ask(grouped(meta=True), "browse", url="x")
    assert result.kind is ToolResultKind.NOT_FOUND and result.is_error
    assert result.text == (
        "Error: Tool 'browse' is not available now: it is in the inactive group 'web'. "
        "Call reset_equipped_tools with to_activate=['web'] first."
    )
    assert "reset_equipped_tools" not in ask(grouped(), "browse", url="x").text
    # what does not exist is answered with what is available
    assert "clock" in ask(grouped(), "brows", url="x").text and "browse" not in ask(grouped(), "brow", url="x").text


def test_no_approval_is_asked_for_a_call_that_cannot_run():
    toolkit = grouped()
    assert not toolkit.needs_approval(use("click", id=1))
    toolkit.update_tool_groups(["desk"], active=True)
    assert toolkit.needs_approval(use("click", id=1))


@pytest.mark.spec("W61")
def test_schemas_are_one_tuple_in_order_of_registration():
    """Prompt caches live on it."""
    toolkit = grouped()
    toolkit.update_tool_groups(["web", "desk"], active=True)
    first = toolkit.schemas()
    toolkit.update_tool_groups(["desk", "web"], active=True)
    assert toolkit.schemas() is first and toolkit.active_groups == ("web", "desk")
    view = toolkit.overlay()
    assert view.schemas() is first
    toolkit.update_tool_groups(["web", "desk"], active=False)
    assert view.schemas() is first and told(toolkit) == ["clock"]


@pytest.mark.spec("W62")
def test_a_copy_and_a_view_have_active_groups_of_their_own():
    """A copy does not leak into its original, nor back."""
    toolkit = grouped()
    copied, view = toolkit.copy(), toolkit.overlay()
    copied.update_tool_groups(["web"], active=True)
    copied.create_tool_group("more", "More")
    view.update_tool_groups(["desk"], active=True)
    assert (told(toolkit), told(view), told(copied)) == (
        ["clock"],
        ["clock", "click"],
        ["clock", "browse", "click"],
    )
    assert [group.name for group in toolkit.groups] == ["web", "desk"]


def test_a_tool_added_later_is_in_its_groups_in_views_too():
    toolkit = grouped()
    view = toolkit.overlay()
    toolkit.register(tool(name="scroll")(clock), group="web")
    assert told(view) == ["clock"] and ask(view, "scroll").kind is ToolResultKind.NOT_FOUND
    view.update_tool_groups(["web"], active=True)
    assert told(view) == ["clock", "browse", "click", "scroll"]
    view.register(tool(name="mine")(clock), group="desk")
    assert toolkit.groups_of("mine") == () and view.groups_of("mine") == ("desk",)


@pytest.mark.spec("W60", "case 111")
def test_setting_the_active_groups_deactivates_the_others():
    """One representation of what is active; no duplicates; nothing is changed if a name is unknown."""
    toolkit = grouped()
    toolkit.set_active_groups(["web", "web", "desk"])
    assert toolkit.active_groups == ("web", "desk")
    toolkit.set_active_groups(["desk"])
    assert toolkit.active_groups == ("desk",) and told(toolkit) == ["clock", "click"]
    with pytest.raises(ConfigurationError, match=r"'wep'\. Did you mean 'web'"):
        toolkit.set_active_groups(["web", "wep"])
    with pytest.raises(ConfigurationError, match="no tool group 'nope'"):
        toolkit.update_tool_groups(["web", "nope"], active=True)
    assert toolkit.active_groups == ("desk",)


@pytest.mark.spec("case 111")
def test_removing_a_group_takes_the_tools_that_are_in_no_other():
    toolkit = grouped()
    toolkit.set_active_groups(["web", "desk"])
    assert [each.name for each in toolkit.remove_tool_groups(["web"])] == ["browse"]
    assert told(toolkit) == ["clock", "click"] and toolkit.active_groups == ("desk",)
    assert toolkit.groups_of("click") == ("desk",)
    toolkit.remove("click")
    toolkit.register(click)
    assert toolkit.groups_of("click") == () and told(toolkit) == ["clock", "click"]


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda kit: kit.create_tool_group("web", "again"), "There is a tool group 'web' already"),
        (lambda kit: kit.create_tool_group(" ", "x"), "needs a name"),
        (lambda kit: kit.create_tool_group("new", ""), "needs a description"),
        (lambda kit: kit.register(tool(name="other")(clock), group="wbe"), "Did you mean 'web'"),
        (lambda kit: kit.update_tool_groups("web", active=True), r"a list of names, as in \['browser'\], not 'web'"),
        (lambda kit: kit.remove_tool_groups(["x"]), "no tool group 'x'"),
        (lambda kit: kit.overlay().remove_tool_groups(["web"]), "An overlay cannot remove groups"),
    ],
)
def test_bad_input(act, says):
    toolkit = grouped()
    before = (toolkit.names, toolkit.groups, toolkit.active_groups)
    with pytest.raises(ConfigurationError, match=says):
        act(toolkit)
    assert (toolkit.names, toolkit.groups, toolkit.active_groups) == before


# --- the meta tool --------------------------------------------------------------------------------------------------


def test_the_meta_tool_names_the_groups_as_they_are():
    toolkit = grouped(meta=True)
    schema = toolkit.schemas()[-1]
    properties = schema.parameters["properties"]
    assert properties["to_activate"]["items"]["enum"] == ["web", "desk"]  # pyright: ignore
    assert schema.description.endswith(
        "Active groups:\nnone\nInactive groups:\n- web: Pages of the web\n- desk: What is on the desk"
    )
    toolkit.update_tool_groups(["desk"], active=True)
    assert toolkit.schemas()[-1].description.endswith(
        "Active groups:\n- desk: What is on the desk\nInactive groups:\n- web: Pages of the web"
    )
    toolkit.create_tool_group("more", "More of it")
    assert "- more: More of it" in toolkit.schemas()[-1].description
    assert toolkit.schema("reset_equipped_tools") == toolkit.schemas()[-1]
    bare = Toolkit()
    bare.register_meta_tool()
    assert "enum" not in str(bare.schemas()[0].parameters)


def test_the_model_activates_and_reads_what_it_has_got():
    toolkit = grouped(meta=True)
    result = ask(toolkit, "reset_equipped_tools", to_activate=["web"])
    assert not result.is_error and toolkit.active_groups == ("web",)
    assert result.text == (
        "Active groups: web.\nGroup 'web': Pages of the web\n- browse: Open a page.\n"
        "- click: Click on something.\nClose what you open."
    )
    assert ask(toolkit, "browse", url="x").text == "page x"


@pytest.mark.spec("case 110")
def test_activation_leaves_others_and_an_empty_list_is_fine():
    """Activating deactivates nothing; an empty list succeeds; one unknown name changes nothing."""
    toolkit = grouped(meta=True)
    toolkit.set_active_groups(["desk"])
    ask(toolkit, "reset_equipped_tools", to_activate=["web"])
    assert toolkit.active_groups == ("web", "desk")
    assert ask(toolkit, "reset_equipped_tools", to_activate=[]).text == "Active groups: web, desk."
    result = ask(toolkit, "reset_equipped_tools", to_activate=[], to_deactivate=["web", "dsk"])
    assert result.kind is ToolResultKind.INVALID_ARGUMENTS and "no group 'dsk'; the groups are web, desk" in result.text
    assert toolkit.active_groups == ("web", "desk")
    assert ask(toolkit, "reset_equipped_tools", to_activate=[], to_deactivate=["web"]).text == "Active groups: desk."
    assert ask(toolkit, "reset_equipped_tools", to_activate=[], to_deactivate=None).text == "Active groups: desk."
    assert ask(toolkit, "reset_equipped_tools", to_deactivate=["desk"]).text == "Active groups: none."


@pytest.mark.parametrize(
    ("input", "says"),
    [
        ({}, "to_activate: is required"),
        ({"to_activate": "web"}, "must be a list of names of groups; given 'web'"),
        ({"to_activate": [1]}, "must be a list of names"),
        ({"to_activate": ["web"], "to_deactivate": ["web"]}, "'web' is in to_activate, too"),
        ({"to_activate": [], "x": 1}, "x: is not an argument"),
    ],
)
def test_a_bad_choice_changes_nothing(input, says):
    toolkit = grouped(meta=True)
    result = ask(toolkit, "reset_equipped_tools", **input)
    assert result.kind is ToolResultKind.INVALID_ARGUMENTS and says in result.text
    assert toolkit.active_groups == ()


def test_a_renamed_meta_tool_lists_the_groups_too():
    toolkit = grouped()
    toolkit.register(MetaTool(), name="equip")
    toolkit.update_tool_groups(["desk"], active=True)
    schema = toolkit.schemas()[-1]
    assert schema.name == "equip" and "Active groups:\n- desk" in schema.description
    ask(toolkit, "equip", to_activate=["web"])
    assert toolkit.active_groups == ("web", "desk")


@pytest.mark.spec("§9.7")
def test_a_copied_meta_tool_controls_the_copy():
    """The quirk that a copy's meta tool went on controlling its original."""
    toolkit = grouped(meta=True)
    copied = toolkit.copy()
    ask(copied, "reset_equipped_tools", to_activate=["web"])
    assert (toolkit.active_groups, copied.active_groups) == ((), ("web",))


_NAMES = ["a", "b", "c", "d"]


@given(
    st.lists(st.sets(st.sampled_from(_NAMES)), min_size=1, max_size=8),
    st.lists(st.tuples(st.lists(st.sampled_from(_NAMES), max_size=4), st.booleans()), max_size=10),
)
def test_available_is_what_is_in_no_group_or_in_an_active_one(memberships, switches):
    toolkit = Toolkit()
    for name in _NAMES:
        toolkit.create_tool_group(name, f"Group {name}")
    for index, groups in enumerate(memberships):
        toolkit.register(tool(name=f"t{index}")(clock), group=sorted(groups))
    active: set[str] = set()
    view = toolkit.overlay()
    for names, on in switches:
        view.update_tool_groups(names, active=on)
        active = active | set(names) if on else active - set(names)
        wanted = [f"t{i}" for i, groups in enumerate(memberships) if not groups or groups & active]
        assert told(view) == wanted
        assert view.active_groups == tuple(name for name in _NAMES if name in active)
        assert [name for name in view.names if not ask(view, name).is_error] == wanted
    assert toolkit.active_groups == ()
