#!/usr/bin/env python3
"""Asks PostgreSQL 15 how it shows the queries of deparse.sql as views: deparse.expected, a JSON line for each.

usage: deparse.py [conninfo]     (default: the golden server on port 5499; needs the database that regenerate.py makes)
"""
import json
import os
import sys
import psycopg

here = os.path.dirname(os.path.abspath(__file__))
conninfo = sys.argv[1] if len(sys.argv) > 1 else "host=127.0.0.1 port=5499 user=postgres"
connection = psycopg.connect(conninfo + " dbname=analyzer_golden", autocommit=True)
with open(os.path.join(here, "deparse.sql")) as queries, open(os.path.join(here, "deparse.expected"), "w") as out:
    for line in queries:
        with connection.transaction(force_rollback=True):
            connection.execute("create view deparsed as " + line)
            shown = connection.execute("select pg_get_viewdef('deparsed'), pg_get_viewdef('deparsed', true)").fetchone()
        out.write(json.dumps({"plain": shown[0], "pretty": shown[1]}) + "\n")
