"""The one exception for people: bad input ends in its single line and exit status 2, never in a traceback."""


class UserError(ValueError):
    """Something the user can put right. The message is one line: which value, which field, what would be right."""
