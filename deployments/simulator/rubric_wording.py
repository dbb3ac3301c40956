"""The words of the simulated rubrics: names of dimensions and what each level from 0 to 5 means.

Marks: ``{s}`` what the item is about, ``{x}`` and ``{y}`` quantities of the question with their nouns, ``{w}`` and
``{v}`` words of it, ``{n}`` a step's noun, ``{e}`` an equation of the answer, ``{r}`` a result of it, ``{k}`` a step,
``{op}`` its operation, ``{f}`` the final answer.
"""

# Dimension names, then in the same place what the levels call the matter.
DIMENSIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "objective": (
        ("{op} worked out in step {k}", "the {op} in step {k}"),
        ("Use of {x}", "the use of {x}"),
        ("Result {r} of step {k}", "the result {r}"),
        ("Final answer {f} for the {w}", "the final answer {f}"),
        ("Choice of {op} for the {n} in step {k}", "the choice of {op} for the {n}"),
        ("{x} and {y} as the question states them", "the use of {x} and {y}"),
        ("Figures cited for the {n} in step {k}", "the figures cited for the {n}"),
        ("Account of {y} by step {k}", "the account of {y}"),
    ),
    "self_derived": (
        ("Carry-over of {r} out of step {k}", "the carry-over of {r}"),
        ("Conclusion {f} against the last step", "the conclusion {f}"),
        ("Starting figure of step {k}", "the start of step {k}"),
        ("Chain from step 1 to {f}", "the chain that ends in {f}"),
        ("Agreement of step {k} with what step {k} cites", "what step {k} cites"),
        ("Consistency of the {n} through step {k}", "the treatment of the {n} through step {k}"),
        ("No two values for the {w}", "the value given to the {w}"),
    ),
    "subjective": (
        ("Explanation beside {e}", "the explanation beside {e}"),
        ("Numbering and order up to step {k}", "the numbering up to step {k}"),
        ("Wording about the {w}", "the wording about the {w}"),
        ("Readability of step {k} on the {n}", "the reading of step {k}"),
        ("Every sentence serving the {w}", "the sentences about the {w}"),
        ("Plain account of why {x} enters", "the account of why {x} enters"),
        ("Layout from the {w} to {f}", "the layout from the {w} to {f}"),
    ),
}

LEVELS: dict[str, tuple[tuple[str, ...], ...]] = {
    "objective": (
        (
            "Nothing in {s} can be traced to the question",
            "No figure for {s} has a source in the text",
            "Either {s} is absent or it is invented",
            "A reader finds no usable number for {s}",
            "Not one part of {s} agrees with what was given",
        ),
        (
            "Only a single figure of {s} is right and the rest is not",
            "Most of {s} is wrong, though one given number is recognized",
            "The attempt at {s} fails in at least three places",
            "Hardly any number in {s} survives a recalculation",
            "One operand of {s} is copied correctly and that is all",
        ),
        (
            "Two separate mistakes sit in {s}",
            "The method for {s} is wrong, but some figures can be kept",
            "Both an operation and a number are off in {s}",
            "Recalculating {s} changes two of its figures",
            "Half of {s} follows the question and half does not",
        ),
        (
            "One real mistake in {s} reaches the result",
            "The approach to {s} is right but a single figure is off and is carried on",
            "A careful reader finds one error in {s} that alters what follows",
            "Apart from one wrong operation or number {s} holds",
            "One step of {s} has to be recalculated",
        ),
        (
            "The outcome of {s} is right and one detail cited beside it is not",
            "All equations in {s} hold, with a single loose number in the words",
            "One quantity near {s} is misquoted without any effect",
            "Recalculation confirms {s}, yet a stated fact differs from the question",
            "A small slip in what {s} says leaves its value untouched",
        ),
        (
            "Every figure in {s} is right and stands in the question or follows from it",
            "Recalculating {s} confirms all of it, operands and outcome alike",
            "Numbers, operation and outcome of {s} are all as they should be",
            "No correction to {s} is possible",
            "Each given quantity enters {s} exactly once and unchanged",
        ),
    ),
    "self_derived": (
        (
            "There is no reasoning that {s} could agree with",
            "No step leads to {s} in any way",
            "What stands around {s} contradicts itself throughout",
            "Without any working, {s} hangs in the air",
            "Each mention of {s} denies the one before",
        ),
        (
            "Three or more breaks separate {s} from the steps before",
            "Only one link to {s} can be followed",
            "The steps near {s} pull in different directions",
            "Barely a trace of earlier results is found in {s}",
            "The reader has to rebuild nearly all that leads to {s}",
        ),
        (
            "Two breaks, and the end does not fit {s} either",
            "A contradiction at {s} comes with a wrong citation",
            "The thread is lost twice on the way to {s}",
            "Some steps agree with {s}, yet more than one does not",
            "After {s} the answer relies on a figure it never reached, and says otherwise too",
        ),
        (
            "One contradiction at {s}, or two citations that do not match",
            "The conclusion departs from the steps once, at {s}",
            "At {s} the answer goes on with another figure than it had",
            "A single broken link around {s} changes what follows",
            "Two remarks about {s} disagree with an earlier line",
        ),
        (
            "The steps bear {s} out, though one remark cites an earlier value wrongly",
            "One citation near {s} is off while the calculation itself is consistent",
            "A reader notices a single mismatch around {s}, without effect on the end",
            "All links to {s} hold except for one figure of speech",
            "Everything before {s} agrees with it apart from one misquoted result",
        ),
        (
            "Each step takes up the last one, and {s} follows from them",
            "Whatever is cited for {s} agrees with the line it comes from",
            "From first to last line nothing speaks against {s}",
            "Every earlier result is reused as it was reached, {s} included",
            "The whole chain is consistent with {s}",
        ),
    ),
    "subjective": (
        (
            "There is nothing readable where {s} should be",
            "The text gives a reader no way into {s}",
            "All that is said on {s} is empty talk",
            "No sentence helps with {s}",
            "A reader gives up before reaching {s}",
        ),
        (
            "Four places around {s} are bare, garbled or filler",
            "Only a fragment of {s} can be understood at first reading",
            "Most lines that touch {s} say nothing",
            "Reading {s} takes guessing at nearly every line",
            "The form of {s} hides almost all of its content",
        ),
        (
            "Three blemishes disturb {s}",
            "Several steps lack words and {s} suffers from it",
            "The reader stumbles three times in {s}",
            "Filler and bare equations together outweigh {s}",
            "Repeated words or missing numbers blur {s} in several places",
        ),
        (
            "Two blemishes disturb {s}, such as a bare equation and a filler sentence",
            "A reader must stop twice at {s}",
            "Two places in {s} lack an explanation or repeat themselves",
            "The order is clear, but {s} is put badly in two lines",
            "Twice in {s} the words do not carry the step",
        ),
        (
            "One blemish only: a bare line, an idle sentence or a doubled word near {s}",
            "Clear apart from a single line of {s} without words",
            "One sentence around {s} could be struck without loss",
            "At one place in {s} a reader has to look twice",
            "A lone slip of form mars {s}",
        ),
        (
            "Each line has its number, its words and its equation, {s} among them",
            "A first reading suffices for {s}",
            "No word of {s} could be spared and none is missing",
            "All steps are explained and {s} reads without a stop",
            "Every sentence on {s} does some work",
        ),
    ),
}

TAILS = (
    "; compare {x} with what the answer writes",
    ", seen from {e}",
    ", with {x} and {y} as the measure",
    "; the place to look is step {k}",
    ", judged by what happens to the {w}",
    "; {r} is the figure to check",
    ", where the {w} and the {v} meet",
    ", whatever the answer says about {y}",
    "; this shows at {e}",
    ", counting from {x} onwards",
    ", as far as the {v} are concerned",
    "; take step {k} and the figure {r} together",
    ", measured on the way to {f}",
    ", including what is said of {w}",
    "; neither {y} nor the {v} may be passed over",
    ", read line by line up to step {k}",
)
