"""Splits a file of psql input into statements and backslash commands, as psql itself does.

Quotes, dollar quotes, nested comments, parentheses and BEGIN ATOMIC keep a semicolon from ending a statement; `\\;` does not end
one; `\\g` and its like do. The data lines behind COPY ... FROM STDIN belong to the statement.
"""

import re
from dataclasses import dataclass

# Backslash commands that send what has been read so far, or throw it away: the statement ends with their line.
SENDING = {"g", "gx", "gset", "gexec", "gdesc", "crosstabview", "watch", "r", "reset"}

# Backslash commands that ask the server nothing: they are sent, but not counted and not compared by themselves.
LOCAL = {
    "set", "unset", "getenv", "setenv", "pset", "a", "C", "f", "H", "t", "T", "x", "if", "elif", "else", "endif", "echo",
    "qecho", "warn", "timing", "o", "out", "p", "print", "r", "reset", "q", "quit", "cd", "prompt", "c", "connect", "encoding",
    "!", "?", "h", "help", "copyright", "errverbose", "w", "write", "s", "unrestrict", "restrict", "watch",
}

WORD = re.compile(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*")
DOLLAR_TAG = re.compile(r"\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$")
COMMAND = re.compile(r"\\(\w+\+?|[!?])")
FROM_STDIN = re.compile(r"\bfrom\s+stdin\b", re.IGNORECASE)
COPY_FROM_STDIN = re.compile(r"^\\?copy\s+(?:binary\s+)?[^\s(]+\s*(?:\([^)]*\))?\s*from\s+stdin\b", re.IGNORECASE)


@dataclass
class Statement:
    """One statement with all that belongs to it, or one backslash command."""

    line: int  # the line of the file that it begins on, from 1
    text: str
    command: str = ""  # the name of the backslash command, if the text begins with one
    data: str | None = None  # the lines behind COPY ... FROM STDIN, without the line that ends them

    @property
    def local(self):
        """Whether it is a backslash command that asks the server nothing."""
        return self.command in LOCAL


def without_comments(text):
    """The text on one line, its comments replaced by spaces."""
    parts, position = [], 0
    while position < len(text):
        end = skip(text, position, True)
        if text.startswith(("--", "/*"), position):
            parts.append(" ")
        elif end > position:
            parts.append(text[position:end])
        else:
            parts.append(" " if text[position] == "\n" else text[position])
            end = position + 1
        position = end
    return "".join(parts).strip()


def skip(text, position, standard_strings):
    """The end of the string, quoted name or comment that begins at a position; the position itself if none does."""
    character = text[position]
    if character == "'":
        before = text[max(0, position - 2) : position]
        escapes = not standard_strings or re.fullmatch(r"(?:.*[^\w$])?[eE]", before, re.DOTALL)
        pattern = r"'(?:[^'\\]|\\.|'')*(?:'|\Z)" if escapes else r"'(?:[^']|'')*(?:'|\Z)"
        return re.compile(pattern, re.DOTALL).match(text, position).end()
    if character == '"':
        end = text.find('"', position + 1)
        return len(text) if end < 0 else end + 1
    if text.startswith("--", position):
        end = text.find("\n", position)
        return len(text) if end < 0 else end
    if text.startswith("/*", position):
        depth = 0
        for found in re.compile(r"/\*|\*/").finditer(text, position):
            depth += 1 if found.group() == "/*" else -1
            if depth == 0:
                return found.end()
        return len(text)
    if character == "$" and (tag := DOLLAR_TAG.match(text, position)):
        if position and (text[position - 1].isalnum() or text[position - 1] in "_$"):
            return position
        end = text.find(tag.group(), tag.end())
        return len(text) if end < 0 else end + len(tag.group())
    return position


def end_of_line(text, position):
    """The position of the next line's first character."""
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def take_data(text, position):
    """The data lines that begin at a position, and where the text goes on; None if there are none.

    A COPY that fails in PostgreSQL has no data behind it: the end-of-data line that follows then belongs to a later COPY.
    """
    end = re.compile(r"^\\\.[ \t]*$", re.MULTILINE).search(text, position)
    if not end or FROM_STDIN.search(text, position, end.start()):
        return None, position
    return text[position : end.start()], end_of_line(text, end.end())


def split(text):
    """All statements and backslash commands of a file, in order."""
    statements = []
    standard_strings = True
    position = 0
    while True:
        # White space and comments in front of a statement are no part of it.
        while position < len(text) and (text[position].isspace() or text.startswith("--", position)):
            position = end_of_line(text, position) if text[position] == "-" else position + 1
        if position >= len(text):
            return statements
        start = position
        line = text.count("\n", 0, start) + 1
        if command := COMMAND.match(text, start):
            position = end_of_line(text, start)
            statement = Statement(line, text[start:position].rstrip("\n"), command.group(1).rstrip("+"))
            if statement.command == "copy" and FROM_STDIN.search(statement.text):
                statement.data, position = take_data(text, position)
            statements.append(statement)
            continue
        position, ended_by_semicolon = end_of_statement(text, start, standard_strings)
        statement = Statement(line, text[start:position].rstrip())
        if not ended_by_semicolon and not without_comments(statement.text):
            continue
        statements.append(statement)
        if found := re.match(r"set\s+(?:local\s+|session\s+)?standard_conforming_strings\s*(?:=|to)\s*'?(\w+)", statement.text, re.I):
            standard_strings = found.group(1).lower() in ("on", "true", "default")
        if ended_by_semicolon:
            copies = [part for part in statement.text.split("\\;") if COPY_FROM_STDIN.match(without_comments(part))]
            blocks = []
            after = end_of_line(text, position)
            for _ in copies:
                block, after = take_data(text, after)
                if block is not None:
                    blocks.append(block)
            if blocks:
                statement.data = "\\.\n".join(blocks)
                position = after


def end_of_statement(text, position, standard_strings):
    """Where the statement that begins at a position ends, and whether a semicolon ends it."""
    parentheses = 0
    begins = 0  # how many BEGIN (or CASE within them) of a body of SQL are open
    branches = []  # parentheses that were open before each \\if: its other branches begin with as many
    words = []
    while position < len(text):
        end = skip(text, position, standard_strings)
        if end > position:
            position = end
            continue
        character = text[position]
        if character == "(":
            parentheses += 1
        elif character == ")":
            parentheses = max(0, parentheses - 1)
        elif character == ";" and parentheses == 0 and begins == 0:
            return position + 1, True
        elif character == "\\":
            if text.startswith((r"\;", r"\:", r"\\"), position):
                position += 2
                continue
            command = COMMAND.match(text, position)
            if not command:
                position += 1
                continue
            if command.group(1) in SENDING:
                return end_of_line(text, position), False
            if command.group(1) == "if":
                branches.append(parentheses)
            elif command.group(1) in ("elif", "else", "endif") and branches:
                parentheses = branches.pop() if command.group(1) == "endif" else branches[-1]
            # Its arguments end with the line, or where the next backslash stands.
            line_end = text.find("\n", position)
            line_end = len(text) if line_end < 0 else line_end
            backslash = text.find("\\", command.end(), line_end)
            position = line_end if backslash < 0 else backslash
            continue
        elif word := WORD.match(text, position):
            name = word.group().lower()
            words.append(name)
            if words[0] == "create" and any(kind in words[1:4] for kind in ("function", "procedure")):
                if name == "begin" and (begins or re.match(r"\s+atomic\b", text[word.end() :], re.I)):
                    begins += 1
                elif name == "case" and begins:
                    begins += 1
                elif name == "end" and begins:
                    begins -= 1
            position = word.end()
            continue
        position += 1
    return position, False
