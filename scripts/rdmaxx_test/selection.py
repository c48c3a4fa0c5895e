"""Which tests a person asked for."""

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Selection:
    """Words from the command line; each is a glob, or part of a name. No words select everything."""

    words: tuple[str, ...] = ()

    def covers(self, title: str) -> bool:
        return not self.words or any(fnmatchcase(title, _pattern(word)) for word in self.words)

    def gtest_filter(self) -> str:
        return ":".join(_pattern(word) for word in self.words) or "*"

    def names_case_of(self, suite: str) -> bool:
        """Whether a word names a single case of this suite, as `check: headers.core/error` does."""
        return any(word.startswith(f"{suite}.") for word in self.words)

    def names_only(self, beginning: str) -> bool:
        """Whether nothing but names that begin like this was asked for."""
        return bool(self.words) and all(word.startswith(beginning) for word in self.words)


def _pattern(word: str) -> str:
    return word if any(sign in word for sign in "*?[") else f"*{word}*"
