"""The words of the simulated trajectories: reasons and suggestions for each kind of flaw.

Marks: ``{q}`` the line that decides, quoted, ``{p}`` the place, ``{d}`` the dimension, ``{w}`` a word of the question,
``{l}`` how the level that was given begins, ``{n}`` the score, ``{fix}`` what should stand there.
"""

FINDINGS: dict[str, tuple[str, ...]] = {
    "false_equation": (
        "the equation in {q} does not hold when it is worked out again",
        "recalculating {q} gives another result than the one written",
        "the figure to the right of the equals sign in {q} is wrong",
    ),
    "wrong_operation": (
        "{q} applies an operation that the {w} do not call for",
        "the sign used in {q} is not the one the question asks for",
        "what {q} does to the running figure does not fit the text about the {w}",
    ),
    "wrong_number": (
        "{q} works with a number that the question does not give at this point",
        "a quantity has been misread in {q}",
        "the operand in {q} differs from what is stated about the {w}",
    ),
    "missing_step": (
        "the working passes over part of what is said about the {w}",
        "a needed step on the {w} is not there, or one too many is",
        "the number of steps does not match what the {w} require",
    ),
    "wrong_claim": (
        "{q} cites a quantity that is found nowhere in the question",
        "the words in {q} state a figure that does not belong to the {w}",
        "a number mentioned in {q} has no source",
    ),
    "wrong_result": (
        "the last line, {q}, is not what a right working of the {w} comes to",
        "the end result {q} misses the mark",
        "{q} cannot be the figure for the {w}",
    ),
    "nothing_to_check": (
        "no equation is offered, so nothing about the {w} can be checked",
        "the answer talks about the {w} without a single calculation",
    ),
    "broken_chain": (
        "{q} does not begin with the result reached just before",
        "the figure that {q} starts from is an older one",
        "the thread breaks at {q}, which ignores the previous line",
    ),
    "wrong_reference": (
        "{q} quotes an earlier step with a value it never had",
        "the earlier result named in {q} is misquoted",
        "what {q} says about a previous step disagrees with that step",
    ),
    "contradiction": (
        "{q} is not the result of the last step",
        "the conclusion {q} contradicts the line above it",
        "the steps arrive somewhere else than {q}",
    ),
    "no_conclusion": (
        "the steps are never brought to a conclusion about the {w}",
        "no final answer in figures follows from the working",
    ),
    "no_reasoning": (
        "there is no chain of steps that could bear a conclusion on the {w}",
        "no reasoning about the {w} is shown at all",
    ),
    "no_explanation": (
        "{q} is a bare equation and says nothing of why it is done",
        "a reader gets no word of explanation with {q}",
        "the step {q} stands without a reason",
    ),
    "unnumbered": (
        "the steps carry no numbers, which makes the part on the {w} hard to refer to",
        "without numbers in front of its lines the working on the {w} is hard to follow",
    ),
    "filler": (
        "{q} adds nothing about the {w}",
        "the sentence {q} is idle talk",
        "{q} could be struck and nothing would be lost",
    ),
    "garbled": (
        "a word is doubled in {q}, which makes the reader stumble",
        "{q} repeats a word and reads as if garbled",
        "the wording of {q} is disturbed by a repetition",
    ),
    "no_working": (
        "the reader is given talk about the {w} where a working should be",
        "nothing is laid out that a reader could follow to the {w}",
    ),
    "empty": ("the answer is empty", "there is no text to read"),
    "slight": (
        "{q} is right, but it could say more about the {w}",
        "nothing in {q} is wrong, yet a strict reader would ask for a word on the {w}",
        "{q} stands, though what it means for the {w} is left to the reader",
        "I would accept {q} with one more remark about the {w}",
    ),
    "none": (
        "{q} is in order and the lines around it agree",
        "going through {q} again brings up nothing to correct",
        "what {q} says about the {w} can be confirmed",
        "I find no fault with {q}",
        "{q} is just what the {w} call for",
    ),
}

OPENERS = (
    "On {d}",
    "For {d}",
    "Judged by {d} alone",
    "As to {d}",
    "Looking only at {d}",
    "Under {d}",
    "What decides {d} is this",
    "Taking {d} by itself",
)

TIES = (
    'This is what level {n} describes: "{l} ...".',
    'It meets "{l} ..." and not the level beyond it.',
    'Hence a {n}, whose description begins "{l}".',
    'The words "{l}" fit, so the score is {n}.',
    'With that, "{l} ..." is the highest description fully met.',
    'I therefore stop at {n} ("{l} ...").',
    'Among the six levels, "{l} ..." comes closest, which makes {n}.',
    'That places it at {n}, where "{l}" is required.',
)

EDITS: dict[str, tuple[str, ...]] = {
    "recalculate": (
        "In {p}, work the equation out again and write {fix}; then bring every later figure into line with it.",
        "Replace the calculation in {p} by {fix} and carry the new result through to the last line.",
        "Put {fix} in {p} and correct what depends on it, down to the final answer.",
        "The edit belongs in {p}: write {fix} there and recompute the rest.",
    ),
    "reword": (
        "Rewrite the words of {p} so that they say why {fix} is done and cite only what the question gives.",
        "Give {p} a sentence of its own that names the quantity behind {fix}.",
        "In {p}, say plainly what {fix} stands for and leave out any other figure.",
        "Add to {p} the reason for {fix}, in the question's own words.",
    ),
    "cite": (
        "In {p}, quote the earlier step with the value it has; the equation {fix} may stay.",
        "Correct the reference in {p}: it must repeat the result as that step gives it, before {fix}.",
        "Change the cited value in {p} to the one reached there and keep {fix}.",
    ),
    "strike": (
        "Strike {p} without replacement.",
        "Delete the idle sentence at {p}; nothing else has to change.",
        "Leave out {p} and let the next step follow at once.",
    ),
    "smooth": (
        "Remove the doubled word in {p} and keep {fix} as it is.",
        "In {p}, say each word once; {fix} needs no change.",
        "Clean up the wording of {p} around {fix}.",
    ),
    "number": (
        "Put a number before each step, from the first one at {p} onwards.",
        "Number the lines of the working in their order, {p} included.",
    ),
    "conclude": (
        "Let the last line say {fix}, which is what the steps come to.",
        "Change the conclusion at {p} to {fix}.",
        "Make {p} agree with the last step by writing {fix}.",
    ),
    "rewrite": (
        "Write the answer anew with numbered steps on the {w}, each with its equation, and close with {fix}.",
        "Replace the whole text by a worked solution for the {w} that ends in {fix}.",
    ),
    "keep": (
        "Keep {p} as it stands; {fix} needs no change.",
        "Nothing has to be changed: {p} with {fix} should stay.",
        "Leave {fix} in {p} untouched, it carries the answer.",
        "Retain {p} word for word, {fix} above all.",
    ),
    "round_off": (
        "Before the last line, add a sentence that says the {w} are all accounted for; leave {fix} in {p} alone.",
        "Close the working with one sentence on the {w} and keep {p}, where {fix} stands, as it is.",
        "After {fix} in {p}, tell the reader that nothing about the {w} is left over.",
    ),
}

EDIT_OF = {
    "false_equation": "recalculate",
    "wrong_operation": "recalculate",
    "wrong_number": "recalculate",
    "broken_chain": "recalculate",
    "wrong_result": "recalculate",
    "missing_step": "rewrite",
    "nothing_to_check": "rewrite",
    "no_reasoning": "rewrite",
    "no_working": "rewrite",
    "empty": "rewrite",
    "wrong_claim": "reword",
    "no_explanation": "reword",
    "wrong_reference": "cite",
    "filler": "strike",
    "garbled": "smooth",
    "unnumbered": "number",
    "contradiction": "conclude",
    "no_conclusion": "conclude",
}
