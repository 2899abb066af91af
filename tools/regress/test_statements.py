"""Tests of the splitter: python3 -m unittest discover tools/regress."""

import unittest

from statements import split


def texts(source):
    return [statement.text for statement in split(source)]


class Split(unittest.TestCase):
    def test_semicolons_end_statements(self):
        self.assertEqual(texts("select 1; select 2;\n-- a comment; no statement\nselect 3"), ["select 1;", "select 2;", "select 3"])

    def test_quotes_and_comments_hide_semicolons(self):
        for text in ("select ';', E'\\';', $a$;$$;$a$, \";\" /* ; /* ; */ ; */ -- ;\n;", "select 'it''s;';", "select U&'\\;' , 'a\\';"):
            self.assertEqual(texts(text + " select 2;"), [text, "select 2;"])

    def test_dollar_within_a_name_is_no_quote(self):
        self.assertEqual(texts("select a$b$ from t; select $1;"), ["select a$b$ from t;", "select $1;"])

    def test_old_strings_have_backslashes(self):
        source = "set standard_conforming_strings to off; select 'a\\';'; set standard_conforming_strings = on; select 'a\\'; select 1;"
        self.assertEqual(len(texts(source)), 5)

    def test_parentheses_and_bodies_hide_semicolons(self):
        rule = "create rule r as on insert to t do also (select 1; select 2);"
        body = "create function f() returns int begin atomic select case when true then 1 end; select 2; end;"
        self.assertEqual(texts(f"{rule}\n{body}\nbegin; end;"), [rule, body, "begin;", "end;"])

    def test_backslash_commands(self):
        source = "\\set x 'a b'\nselect 1 \\gset\nselect 2\\; select 3;\n\\d t\nselect\n\\gexec\n"
        self.assertEqual(texts(source), ["\\set x 'a b'", "select 1 \\gset", "select 2\\; select 3;", "\\d t", "select\n\\gexec"])
        self.assertEqual([statement.local for statement in split(source)], [True, False, False, False, False])

    def test_branches_within_a_statement(self):
        text = "select\n  \\if true\n  42\n  \\else\n  (bogus\n  \\endif\n  forty_two;"
        self.assertEqual(texts(text + "\nselect 2;"), [text, "select 2;"])

    def test_data_of_copy(self):
        first, second, third, after = split("copy t (a, b) from stdin;\n1\t';\n\\.\nCOPY t FROM STDIN;\n\\.\ncopy u from stdin;\nselect 1;\n")
        self.assertEqual((first.data, second.data, third.data), ("1\t';\n", "", None))
        self.assertEqual((after.text, after.line), ("select 1;", 7))

    def test_a_copy_that_fails_takes_no_data_of_another(self):
        failing, good = split("copy t (none) from stdin;\ncopy t from stdin;\n1\n\\.\n")
        self.assertEqual((failing.data, good.data), (None, "1\n"))


if __name__ == "__main__":
    unittest.main()
