"""The one exception that means "what you gave us is wrong": the command line prints it and exits with code 2."""


class InputError(ValueError):
    """Bad input, told in words a user can act on: what is wrong, where (file, line, flag, token), what to do."""
