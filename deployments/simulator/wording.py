"""The words of the simulated answers: pools of phrasings, filled with the question's own words.

Two answers share few word 4-grams although they work on the same figures. No phrase holds a figure of its own, a
filler or a word twice in a row, so that the checker finds only what was planted.
"""

FILLERS = (
    "So, you know, that is just how it goes.",
    "Anyway, things are the way they are.",
    "It is what it is, more or less.",
    "One could say a lot of things here.",
    "This is very interesting in its own way.",
    "As everybody knows, maths is maths.",
    "And so on and so forth, as they say.",
    "Let us not get ahead of ourselves, though.",
    "There is really nothing more to it than that.",
    "That, in a nutshell, is the whole story.",
    "Well, what else would it be.",
    "Make of that what you will.",
    "It goes without saying, obviously.",
    "At the end of the day it all adds up somehow.",
)

INTROS = (
    "The question turns on the {a} and the {b}, so I follow them in the order they are told.",
    "To settle the {a}, I go through what happens to the {b} and then the {c}.",
    "Here is how the {a}, the {b} and the {c} hang together.",
    "I start from the {a} and track the {b} until nothing is left to use.",
    "What matters is the {a}; the {b} only change its size.",
    "Reading the text once more, the {a} come first and the {b} afterwards.",
    "My plan: keep one running figure for the {a} and update it for every {b} mentioned.",
    "Everything about the {a} can be found by following the {b} line by line.",
    "The {a} and {b} are all I need, with the {c} as a check on the side.",
    "Let me lay out the {a} before touching the {b}.",
    "For the {a} I take each statement about the {b} in turn.",
    "Working from the {c} back to the {a} would be harder, so I go forward through the {b}.",
)

LEADS = (
    "First", "To begin", "Opening with the {a}", "At the outset", "Looking at the {a}", "Starting out",
)  # fmt: skip

NEXT_LEADS = (
    "Next", "Then", "After that", "Turning to the {a}", "Now", "Moving on to the {a}", "With this in hand",
    "Going further", "For the {a}", "Once that stands", "Coming to the {a}", "Continuing", "On the {a} side",
    "Following the text",
)  # fmt: skip

ACTIONS = {
    "+": (
        "the {right} {noun} are put on top",
        "I bring in the {right} for {noun}",
        "adding {right} ({noun}) raises the figure",
        "the text gives {right} more, counted under {noun}",
        "{right} {noun} join what was there",
        "we gain the {right} that belong to {noun}",
        "include the {right} {noun} as well",
        "the running figure grows by {right} on account of the {noun}",
    ),
    "-": (
        "the {right} {noun} have to come off",
        "I take away {right} because of the {noun}",
        "{right} {noun} are no longer there",
        "subtracting the {right} tied to {noun} lowers the figure",
        "remove {right} to allow for the {noun}",
        "we lose the {right} that go with {noun}",
        "leave out the {right} {noun}",
        "the running figure falls by {right}, namely the {noun}",
    ),
    "*": (
        "this happens {right} times over, once per {noun}",
        "every one of the {right} {noun} repeats it",
        "I scale it by the {right} {noun}",
        "multiplying with {right} covers all the {noun}",
        "take it {right} times, as the {noun} demand",
        "we need {right} lots of it for the {noun}",
        "the {right} {noun} make it that many times as large",
        "the running figure is repeated for each of {right} {noun}",
    ),
    "/": (
        "it is shared evenly among {right} {noun}",
        "I split it into {right} equal parts, one per {noun}",
        "dividing by {right} gives what falls to the {noun}",
        "each of the {right} {noun} gets the same portion",
        "cut it into {right} because of the {noun}",
        "we hand it out over {right} {noun}",
        "spread over {right} {noun} it becomes smaller",
        "the running figure is divided among {right} for the {noun}",
    ),
}

REASONS = (
    "since the {b} depend on it",
    "as the part about the {b} says",
    "because the {b} and the {c} are counted together",
    "which is what the sentence with {b} asks for",
    "so that the {c} are not forgotten",
    "given how the {b} are described",
    "for the {c} cannot be told apart from the {b} otherwise",
    "which settles the {b}",
    "to keep the {c} in line with the {b}",
    "following the remark on {c}",
    "the {b} being the point of the question",
    "as long as the {c} stay as stated",
    "and that takes care of the {b}",
    "in keeping with the {c} mentioned earlier",
)

REFERENCES = (
    "using what step {step} gave {value}",
    "carrying on from where step {step} ended at {value}",
    "with step {step}'s {value}",
    "as step {step} came to {value}",
    "building on step {step}'s {value}",
    "because step {step} left {value}",
    "and step {step} gave {value}",
)

CLAIMS = (
    "the text speaks of {value} {noun}",
    "the question states {value} {noun}",
    "out of {value} {noun} in the story",
    "there being {value} {noun} to begin with",
    "with {value} {noun} mentioned",
)

CLOSINGS = (
    "That is as far as the {a} go, and it answers what was asked about the {b}.",
    "With the {a} used up, the figure for the {b} stands.",
    "Nothing else in the text touches the {a}, so I stop at the {b}.",
    "The {b} have all been counted, which closes the matter of the {a}.",
    "No {a} is left over and the {b} have been dealt with.",
    "All that the question says on {a} and {b} has now been used.",
    "This leaves the {b} settled as far as the {a} allow.",
    "",
    "",
    "",
    "",
)

EVASIONS = (
    "It is hard to say anything firm about the {a} here.",
    "Many people have thought about the {b} and have come to various views.",
    "The {c} might be many or few, depending on the day.",
    "Questions on {a} are best left to those who own the {b}.",
    "I rather like the {c}, though they do not help with the {a}.",
    "A good guess about the {b} would be as good as any working.",
    "Whoever wrote about the {a} surely knew what the {c} meant.",
    "In general the {b} tend to follow the {a}, or the other way round.",
)
