#!/usr/bin/env python3
"""Asks PostgreSQL 15 what it says to the statements of right.sql, psql.sql and wrong.sql.

usage: regenerate.py [conninfo]     (default: the golden server on port 5499)

psql.sql holds what psql's \\d commands send. Writes *.expected (one line a statement: columns as name:type, parameters after ' <- ') and wrong.expected
(SQLSTATE|position|message|detail|hint). Needs psycopg 3.
"""
import os
import sys
import psycopg
from psycopg import pq

here = os.path.dirname(os.path.abspath(__file__))
conninfo = sys.argv[1] if len(sys.argv) > 1 else "host=127.0.0.1 port=5499 user=postgres dbname=postgres"
DATABASE = "analyzer_golden"


def statements(name):
    with open(os.path.join(here, name)) as file:
        return [line.rstrip("\n").removesuffix(";") for line in file if line.strip()]


with psycopg.connect(conninfo, autocommit=True) as admin:
    admin.execute(f"drop database if exists {DATABASE}")
    admin.execute(f"create database {DATABASE}")
connection = psycopg.connect(conninfo + f" dbname={DATABASE}", autocommit=True)
with open(os.path.join(here, "schema.sql")) as file:
    connection.execute(file.read())


def type_name(oid, modifier):
    row = connection.execute("select format_type(%s, %s)", (oid, modifier if modifier >= 0 else None)).fetchone()
    return row[0]


def describe(statement):
    pg = connection.pgconn
    result = pg.prepare(b"s", statement.encode())
    if result.status != pq.ExecStatus.COMMAND_OK:
        raise RuntimeError(statement + ": " + result.error_message.decode())
    result = pg.describe_prepared(b"s")
    columns = [
        f"{result.fname(i).decode()}:{type_name(result.ftype(i), result.fmod(i))}" for i in range(result.nfields)
    ]
    parameters = [type_name(result.param_type(i), -1) for i in range(result.nparams)]
    connection.execute("deallocate s")
    return "|".join(columns) + ((" <- " + ", ".join(parameters)) if parameters else "")


def complaint(statement):
    pg = connection.pgconn
    result = pg.prepare(b"e", statement.encode())
    if result.status == pq.ExecStatus.COMMAND_OK:
        result = pg.exec_prepared(b"e", [])
    if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        raise RuntimeError("no error: " + statement)
    field = lambda f: (result.error_field(f) or b"").decode()
    return "|".join([
        field(pq.DiagnosticField.SQLSTATE), field(pq.DiagnosticField.STATEMENT_POSITION),
        field(pq.DiagnosticField.MESSAGE_PRIMARY), field(pq.DiagnosticField.MESSAGE_DETAIL),
        field(pq.DiagnosticField.MESSAGE_HINT),
    ])


for name, ask in (("right", describe), ("psql", describe), ("wrong", complaint)):
    with open(os.path.join(here, name + ".expected"), "w") as out:
        for statement in statements(name + ".sql"):
            out.write(ask(statement) + "\n")
            if name == "wrong":
                connection.pgconn.exec_(b"deallocate all")
