"""The root of errors that are the user's to mend: their message is all that is shown of them."""


class UserError(Exception):
    """Says what was wrong, where, and what to do."""
