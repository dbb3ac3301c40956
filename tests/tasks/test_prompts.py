from hypothesis import given, strategies as st

from tasks.prompts import fenced, load_prompt


def test_text_put_into_a_prompt_is_not_searched_for_marks() -> None:
    messages = load_prompt("answer").render(question="What does {{question}} mean?")
    assert "What does {{question}} mean?" in messages[1].text


def test_a_section_is_left_out_where_its_name_has_no_value() -> None:
    answer = {"question": "q", "target": "3", "variant": "1"}
    assert "dimension" not in load_prompt("coverage").render(**answer, dimension=None)[1].text
    assert "alone:\n\nClarity" in load_prompt("coverage").render(**answer, dimension="Clarity")[1].text


@given(st.text(alphabet='<>/ques tion\n"=fence0123456789abcdef', max_size=80))
def test_no_text_closes_its_own_fence(text: str) -> None:
    lines = fenced("question", text).split("\n")
    assert lines[-1] not in lines[1:-1]


def test_every_template_has_a_system_and_a_user_part() -> None:
    for name in ("answer", "coverage", "rubric", "trajectory", "critic_rubric", "critic_refine"):
        prompt = load_prompt(name)
        assert prompt.system
        assert prompt.user
