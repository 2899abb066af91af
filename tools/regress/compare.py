"""What came of each statement: both servers' answers side by side."""

import re
from dataclasses import dataclass, field

from servers import server_copy

# The classes, in the order of the summary.
IDENTICAL = "identical"
SAME = "same rows or SQLSTATE, other text"
REFUSED = "refused (0A000)"
CASCADE = "cascade"
FUNCTION_IN_C = "function of regress.so"
SERVER_COPY = "COPY of a server file, fed through \\copy"
DIFFERENT = "different"
CRASHED = "crashed or timed out"
NOT_REACHED = "not reached"
CLASSES = [IDENTICAL, SAME, REFUSED, CASCADE, FUNCTION_IN_C, SERVER_COPY, DIFFERENT, CRASHED, NOT_REACHED]

MESSAGE = re.compile(r"^(?:psql:\S* )?(?:DEBUG|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|CONTEXT|QUERY|LINE \d+):? ")
RULE = re.compile(r"-+(\+-+)*$")
NAME = r'(?:(?:\w+|"[^"]+")\.)?(\w+|"[^"]+")'
KIND = (
    r"(?:temp(?:orary)?\s+|unlogged\s+|global\s+|local\s+|unique\s+|foreign\s+|materialized\s+|recursive\s+|event\s+|trusted\s+|"
    r"procedural\s+|constraint\s+|default\s+|user\s+mapping\s+for\s+|access\s+|text\s+search\s+)*\w+\s+"
)
# What a statement makes, changes or fills: if it failed, whatever names it afterwards cannot be expected to agree.
TOUCHED = [
    re.compile(
        rf"^create\s+(?!.{{,40}}\b(?:trigger|rule|policy)\b)(?:or\s+replace\s+)?{KIND}(?:concurrently\s+)?(?:if\s+not\s+exists\s+)?{NAME}",
        re.I,
    ),
    re.compile(rf"^create\s+(?:or\s+replace\s+)?(?:constraint\s+)?(?:trigger|policy)\s.*?\son\s+{NAME}", re.I | re.S),
    re.compile(rf"^create\s+(?:or\s+replace\s+)?rule\s.*?\sto\s+{NAME}", re.I | re.S),
    re.compile(rf"^create\s+unique\s+index\b.*?\son\s+(?:only\s+)?{NAME}", re.I | re.S),
    re.compile(
        rf"^alter\s+(?!.*\b(?:owner\s+to|set\s*\(|reset\s*\(|all\s+in\s+tablespace)){KIND}(?:if\s+exists\s+)?(?:only\s+)?{NAME}", re.I | re.S
    ),
    re.compile(rf"^drop\s+{KIND}(?:concurrently\s+)?(?:if\s+exists\s+)?{NAME}", re.I),
    re.compile(rf"^(?:insert\s+into|update(?:\s+only)?|delete\s+from(?:\s+only)?|merge\s+into(?:\s+only)?)\s+{NAME}", re.I),
    re.compile(rf"^\\?copy\s+(?:binary\s+)?{NAME}\s*(?:\([^)]*\))?\s*from\b", re.I),
    re.compile(rf"^truncate\s+(?:table\s+)?(?:only\s+)?{NAME}", re.I),
    re.compile(rf"^(?:prepare|declare|refresh\s+materialized\s+view(?:\s+concurrently)?)\s+{NAME}", re.I),
    re.compile(rf"^(?:select|with)\b.*\binto\s+(?:temp\s+|unlogged\s+|table\s+)*{NAME}\s+from\b", re.I | re.S),
    re.compile(rf"^(?:grant|revoke)\b.*?\son\s+(?:table\s+|function\s+|schema\s+|type\s+)?{NAME}", re.I | re.S),
]
VARIABLES = re.compile(r"\\gset(?:\s+(\w+))?")
WORD = re.compile(r'\w+|"[^"]+"')
# Words that a pattern above may take for a name, and that every other statement uses.
NO_NAMES = set(
    "all and as by class comment concurrently constraint data default delete for from function if in index insert int integer is "
    "not null of on only or owned procedure public role row schema select server set settings table temp text to type "
    "update user using value values view where with".split()
)
# A name as short as those of many columns counts only where a name of a relation, a type or a function stands.
PLACE = r"(?:\b(?:from|join|into|update|table|only|on|type|view|function|execute|copy|inherits|references|using|like|of|in)\s+\(?|,\s*|::\s*)"


@dataclass
class Outcome:
    """A statement and what came of it."""

    number: int  # within its file, from 1; backslash commands that ask the server nothing are not counted
    statement: object
    kind: str
    postgres: object
    cairn: object
    reason: str = ""  # what was refused, or how the answers differ
    root: str = ""  # of a cascade: the reason of the statement that failed first


@dataclass
class Failures:
    """What earlier statements failed to make, by name, each with the reason; it lasts across files, as the database does."""

    names: dict = field(default_factory=dict)
    transaction: str | None = None  # why the transaction that is open in Cairn has failed
    open: bool = False
    made: list = field(default_factory=list)  # names touched since BEGIN that were not missing before

    def cause(self, text):
        """The reason of the failure that a statement suffers from, by the names it uses."""
        for word in WORD.findall(text):
            name = word.strip('"').lower()
            if (reason := self.names.get(name)) and (len(name) > 2 or re.search(rf'{PLACE}"?{name}\b|\b{name}\(', text, re.I)):
                return reason
        return ""

    def note(self, text, reason):
        """Records what a statement touches as missing, or as there again."""
        dropped = re.match(r"drop\s", text, re.I)
        names = {found[1].strip('"').lower() for pattern in TOUCHED if (found := pattern.match(text))}
        names = {name for name in names if name not in NO_NAMES and not name.startswith("pg_")}
        if dropped:
            names |= {word.strip('"').lower() for word in WORD.findall(text)} & self.names.keys()
        self.made += names - self.names.keys()
        for name in names:
            if reason and not (dropped and "does not exist" in reason):
                self.names[name] = reason
            elif not reason and re.match(r"create|drop|prepare|declare", text, re.I):
                self.names.pop(name, None)

    def follow(self, text, outcome):
        """Keeps track of transaction blocks: of one that fails in Cairn alone nothing is left there."""
        if re.match(r"(begin|start\s+transaction)\b", text, re.I):
            self.open, self.made, self.transaction = True, [], None
        if self.open and outcome.cairn.error and not outcome.postgres.error:
            self.transaction = self.transaction or outcome.root or outcome.reason
        if re.match(r"(commit|end)\b", text, re.I):
            if self.transaction and not outcome.postgres.error:
                self.names.update(dict.fromkeys(self.made, self.transaction))
            self.open, self.made, self.transaction = False, [], None
        elif re.match(r"(rollback|abort)\b(?!.*\bto\b)", text, re.I):
            for name in self.made:
                self.names.pop(name, None)
            self.open, self.made, self.transaction = False, [], None
        elif re.match(r"rollback\b", text, re.I):
            self.transaction = None


def rows(text):
    """The result tables of an answer, without the messages around them."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if RULE.match(line.strip()) and number > 0:
            return lines[number - 1 :]
    return [line for line in lines if line and not MESSAGE.match(line) and not line.lstrip().startswith("^")]


def general(message):
    """A message with its names and numbers left out: what it is about."""
    message = re.sub(r'"(?:[^"]|"")*"', '"…"', message)
    message = re.sub(r"'(?:[^']|'')*'", "'…'", message)
    return re.sub(r"\b\d+\b", "N", message)


def feature(message):
    """The feature that a 0A000 names."""
    return re.sub(r"\s+(?:is|are) not (?:yet )?(?:supported|implemented)(?: yet)?(?: here)?\.?$", "", general(message))


def state(answer, statement):
    """The SQLSTATE of the error that an answer holds; a backslash command does not tell it."""
    if not answer.error:
        return ""
    return "" if statement.command and statement.command != "copy" else answer.state


def classify(statement, postgres, cairn, failures, client_copy):
    """The class of a statement, its reason and the root of a cascade."""
    text = statement.text
    if cairn.lost:
        return CRASHED, cairn.lost, ""
    if client_copy and server_copy(statement):
        return SERVER_COPY, "", ""
    if postgres.text == cairn.text and postgres.error == cairn.error:
        return IDENTICAL, "", ""
    theirs, ours = state(postgres, statement), state(cairn, statement)
    if postgres.error and cairn.error and theirs == ours and theirs:
        return SAME, "error text", ""
    if ours == "57014":
        return CRASHED, "timed out", ""
    if re.search(r"\blanguage\s+'?c\b", text, re.I) and re.match(r"create\b", text, re.I) and cairn.error:
        return FUNCTION_IN_C, "", ""
    # Neither is there a transaction to go on with, nor are its savepoints there.
    if ours == "25P02" or ours == "3B001" and not postgres.error:
        return CASCADE, "", failures.transaction or "failed transaction"
    if cairn.error and (ours == "0A000" or (not ours and "not supported" in cairn.error)):
        return REFUSED, feature(cairn.error), ""
    if not postgres.error and not cairn.error:
        mine, other = rows(cairn.text), rows(postgres.text)
        if mine == other:
            return SAME, "notices", ""
        if sorted(mine) == sorted(other) and not re.search(r"\border\s+by\b", text, re.I):
            return SAME, "order of rows", ""
    if ours == "XX000":
        return DIFFERENT, f"internal error: {cairn.error}", ""
    if cause := failures.cause(text):
        return CASCADE, "", cause
    if cairn.error and postgres.error:
        return DIFFERENT, f"other SQLSTATE: {ours} for {theirs}" if ours else "error text", ""
    if cairn.error:
        return DIFFERENT, f"refused: {ours} {general(cairn.error)}", ""
    if postgres.error:
        return DIFFERENT, f"accepted: PostgreSQL says {theirs} {general(postgres.error)}", ""
    # Functions of the suite run EXPLAIN and return what it says.
    if re.match(r"explain\b|.*\b(?:explain_\w+|check_estimated_rows)\s*\(", text, re.I):
        return DIFFERENT, "plan", ""
    if statement.command:
        return DIFFERENT, f"\\{statement.command}", ""
    if sorted(mine) == sorted(other):
        return DIFFERENT, "order of rows", ""
    return DIFFERENT, "rows", ""


def compare(statements, postgres, cairn, failures, client_copy):
    """The outcomes of a file. What PostgreSQL itself does not answer is left out."""
    outcomes = []
    failures.open, failures.made, failures.transaction = False, [], None
    number = 0
    for place, statement in enumerate(statements):
        if statement.local:
            continue
        number += 1
        answer, own = postgres.get(place), cairn.get(place)
        if answer is None:
            continue
        if own is None:
            outcomes.append(Outcome(number, statement, NOT_REACHED, answer, None))
            continue
        outcome = Outcome(number, statement, "", answer, own)
        outcome.kind, outcome.reason, outcome.root = classify(statement, answer, own, failures, client_copy)
        outcomes.append(outcome)
        failed = outcome.kind in (REFUSED, CASCADE, FUNCTION_IN_C, CRASHED) or outcome.kind == DIFFERENT and own.error
        if not answer.error:
            reason = outcome.root or outcome.reason or outcome.kind
            failures.note(statement.text, reason if failed else "")
            if failed and (found := VARIABLES.search(statement.text)):
                prefix = found[1] or ""
                for alias in re.findall(r"\bas\s+(\w+)", statement.text, re.I):
                    failures.names[(prefix + alias).lower()] = reason
        failures.follow(statement.text, outcome)
    return outcomes
