"""The two servers, and a file of statements run through psql on one of them."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from statements import COPY_FROM_STDIN, without_comments

POSTGRES = Path("/usr/lib/postgresql/15/bin")
DATABASE = "regression"
STATEMENT_TIMEOUT = 20  # seconds
SILENCE = 60  # seconds without output after which psql is stopped

MARK = "~~~ statement"
MARKED = re.compile(re.escape(MARK) + r" (\d+) ([0-9A-Z]{5})\n")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server of its own on a port of its own, with an empty database."""

    name = ""

    def __init__(self, suite, scratch):
        self.suite = suite
        self.directory = scratch / self.name
        self.directory.mkdir()
        self.build = self.directory / "build"  # the abs_builddir of the tests
        (self.build / "results").mkdir(parents=True)
        self.port = free_port()
        self.process = None
        self.restarts = 0
        self.seconds = {}  # how long each file took

    def launch(self):
        raise NotImplementedError

    def start(self):
        self.process = self.launch()
        for _ in range(600):
            if self.answers():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit(f"{self.name} did not start; its log is {self.directory / 'log'}")

    def answers(self):
        return self.psql("-d", "postgres", "-Atqc", "select 1").returncode == 0

    def psql(self, *arguments):
        return subprocess.run(
            [POSTGRES / "psql", "-X", *arguments], env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True
        )

    def create_database(self):
        """Makes the database with the settings that pg_regress gives it."""
        settings = ["lc_messages TO 'C'", "lc_monetary TO 'C'", "lc_numeric TO 'C'", "lc_time TO 'C'", "bytea_output TO 'hex'",
                    "timezone_abbreviations TO 'Default'"]
        made = self.psql("-d", "postgres", "-qc", f"create database {DATABASE} template template0")
        if made.returncode != 0:
            raise SystemExit(f"{self.name}: {made.stderr}")
        for setting in settings:
            self.psql("-d", "postgres", "-qc", f"alter database {DATABASE} set {setting}")

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
        return kept | {
            "PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": "postgres",
            "LC_MESSAGES": "C", "LC_CTYPE": "C.UTF-8",
        } | more

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def run(self, name, statements, client_copy):
        """Runs a file; returns an Answer for each statement that psql came to, by the statement's place in the file.

        When a statement ends the session, the next one goes on in a new session.
        """
        since = time.monotonic()
        answers, first = {}, 0
        while first < len(statements):
            if self.process and self.process.poll() is not None:
                self.restarts += 1
                self.start()
            text, stopped = self.session(name, self.script(statements, first, client_copy))
            lost = self.take_answers(text, stopped, answers)
            if lost is None:
                break
            # It was the first of those behind the last answer that psql sends.
            guilty = max((place for place in answers if place >= first), default=first - 1) + 1
            while guilty < len(statements) and statements[guilty].local:
                guilty += 1
            answers[guilty] = lost
            first = guilty + 1
        self.seconds[name] = time.monotonic() - since
        return answers

    def session(self, name, script_text):
        """Runs psql on a text; returns what it printed and whether it had to be stopped."""
        script = self.directory / f"{name}.sql"
        script.write_text(script_text, encoding="utf-8", errors="surrogateescape")
        output = self.directory / f"{name}.out"
        environment = self.environment(
            PGTZ="America/Los_Angeles", PGDATESTYLE="Postgres, MDY", PGAPPNAME=f"pg_regress/{name}",
            PGOPTIONS=f"-c intervalstyle=postgres_verbose -c statement_timeout={STATEMENT_TIMEOUT}s",
            PG_ABS_SRCDIR=str(self.suite), PG_ABS_BUILDDIR=str(self.build), PG_LIBDIR=str(self.suite / "lib"), PG_DLSUFFIX=".so",
        )
        with open(script, "rb") as source, open(output, "wb") as sink:
            psql = subprocess.Popen(
                [POSTGRES / "psql", "-X", "-q", "-d", DATABASE, "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on"],
                stdin=source, stdout=sink, stderr=subprocess.STDOUT, env=environment, cwd=self.build,
            )
            stopped = self.watch(psql, output)
        return output.read_text(encoding="utf-8", errors="backslashreplace"), stopped

    @staticmethod
    def watch(psql, output):
        """Waits for psql to end; stops it when nothing has come out of it for a while. Says whether it did."""
        size, since = -1, time.monotonic()
        while True:
            try:
                psql.wait(5)
                return False
            except subprocess.TimeoutExpired:
                now = output.stat().st_size
                if now != size:
                    size, since = now, time.monotonic()
                elif time.monotonic() - since > SILENCE:
                    psql.kill()
                    psql.wait()
                    return True

    def script(self, statements, first, client_copy):
        """The input of psql: the statements from a place on, each with a line behind it that prints its place and SQLSTATE.

        Of those before, the commands that set variables are there.
        """
        lines = ["\\set SQLSTATE 00000"]
        variables = {"abs_srcdir": str(self.suite), "abs_builddir": str(self.build)}
        for place, statement in enumerate(statements):
            if place < first and statement.command not in ("set", "getenv"):
                continue
            if found := re.match(r"\\set\s+(\w+)\s+(.*)", statement.text):
                value = re.sub(r":(\w+)", lambda name: variables.get(name[1], ""), found[2])
                variables[found[1]] = value.replace("'", "").replace(" ", "")
            lines.append(self.fed(place, statement, variables, client_copy))
            if not statement.local:
                lines.append(f"\\echo {MARK} {place} :SQLSTATE")
        return "\n".join(lines) + "\n"

    def fed(self, place, statement, variables, client_copy):
        """What psql gets for a statement.

        The data of COPY FROM STDIN goes into a file that \\copy reads: behind a COPY that is refused psql 15.18 would take the
        data for statements.
        """
        text = without_comments(statement.text).removesuffix(";").rstrip()
        if COPY_FROM_STDIN.match(text) and "\\;" not in text:
            data = "/dev/null"
            if statement.data is not None:
                data = self.directory / f"data-{place}"
                data.write_text(statement.data, encoding="utf-8", errors="surrogateescape")
            start, end = COPY_FROM_STDIN.match(text).span()
            head = text[start:end].removeprefix("\\")
            return "\\" + re.sub(r"stdin$", lambda _: f"'{data}'", head, flags=re.IGNORECASE) + text[end:]
        if client_copy and (found := server_copy(statement)):
            return f"\\{found[1]}'{variables.get(found[2], '')}'{found[3]}"
        if statement.data is not None:
            return f"{statement.text}\n{statement.data}\\."
        return statement.text

    def take_answers(self, text, stopped, answers):
        """Adds the answers in what psql printed; returns the one of the statement that ended the session, if one did."""
        text = text.replace(str(self.build), "<builddir>").replace(str(self.suite), "<srcdir>")
        text = text.replace(str(self.directory), "<directory>").replace(f"port {self.port} ", "port <port> ")
        position = 0
        for mark in MARKED.finditer(text):
            answers[int(mark[1])] = Answer(text[position : mark.start()], mark[2])
            position = mark.end()
        # What stands behind the last mark belongs to the statement that ended the session, if one did.
        rest = text[position:]
        if stopped:
            return Answer(rest, "", "stopped: no output")
        lost = "server closed the connection" in rest or "connection to server was lost" in rest
        return Answer(rest, "", "connection lost") if lost else None


@dataclass
class Answer:
    """What psql printed for a statement."""

    text: str
    state: str  # the SQLSTATE that psql has seen last
    lost: str = ""  # how the session ended, if it ended here

    @property
    def error(self):
        """The first error message, or an empty string."""
        found = re.search(r"^(?:ERROR|FATAL|PANIC):  (.*)", self.text, re.MULTILINE)
        return found[1] if found else ""


def server_copy(statement):
    """A COPY whose file the server is to read or write, as a match of: the command, the file's variable, the options."""
    text = without_comments(statement.text).removesuffix(";").rstrip()
    return re.match(r"(copy\s.*?\s(?:from|to)\s+):'(\w+)'(.*)", text, re.IGNORECASE)


class PostgreSQL(Server):
    name = "postgresql"

    def launch(self):
        data = self.directory / "data"
        root = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        if root:
            for path in (self.directory, self.build, self.build / "results"):
                shutil.chown(path, "postgres")
        if not data.exists():
            subprocess.run(
                [POSTGRES / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"],
                check=True, stdout=subprocess.DEVNULL, cwd="/", **root,
            )
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "", "fsync": "off",
                    "max_prepared_transactions": 2}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(self.directory / "log", "ab") as log:
            return subprocess.Popen([POSTGRES / "postgres", "-D", data, *options], stdout=log, stderr=log, cwd="/", **root)


class Cairn(Server):
    name = "cairn"

    def __init__(self, suite, scratch, binary):
        super().__init__(suite, scratch)
        self.binary = binary

    def launch(self):
        with open(self.directory / "log", "ab") as log:
            return subprocess.Popen(
                [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--data-dir", self.directory / "data"],
                stdout=log, stderr=log,
            )


class Running(Server):
    """A Cairn that runs already, at PGHOST and PGPORT."""

    name = "cairn"

    def __init__(self, suite, scratch):
        super().__init__(suite, scratch)
        self.port = int(os.environ["PGPORT"])

    def start(self):
        if not self.answers():
            raise SystemExit("no server answers at PGHOST and PGPORT")
        self.psql("-d", "postgres", "-qc", f"drop database if exists {DATABASE} with (force)")

    def environment(self, **more):
        given = {name: os.environ[name] for name in ("PGHOST", "PGPORT", "PGUSER", "PGPASSWORD") if name in os.environ}
        return super().environment(**more) | given
