"""Where figures come from: the commit of the code that made them."""

import subprocess
from pathlib import Path


def commit() -> str | None:
    """The commit of the code that runs, with a plus where the package was changed since; None outside a checkout."""
    folder = Path(__file__).resolve().parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    # An installed copy may lie inside somebody else's checkout: ask only where this file is tracked.
    if git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    name = git("rev-parse", "--short=12", "HEAD")
    return f"{name}+" if name and git("status", "--porcelain", "--untracked-files=no", "--", ".") else name
