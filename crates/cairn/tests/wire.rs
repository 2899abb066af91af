//! What the server sends, message by message. Each conversation is held with Cairn and, where one is installed, with
//! PostgreSQL; both must answer as written here.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_testkit::Server;
use libtest_mimic::{Arguments, Trial};

/// What is said, and what must come back.
type Conversation = fn(&Server);

const CONVERSATIONS: &[(&str, Conversation)] = &[
    ("an_error_leaves_at_once", an_error_leaves_at_once),
    ("errors_say_where_they_were_raised", errors_say_where_they_were_raised),
    (
        "a_statement_whose_result_changed_is_prepared_again",
        a_statement_whose_result_changed_is_prepared_again,
    ),
    ("constants_that_fail_are_left_to_the_execution", constants_that_fail_are_left_to_the_execution),
    ("binary_copy_sends_its_header_with_the_first_row", binary_copy_sends_its_header_with_the_first_row),
    ("void_parameters_are_no_arguments", void_parameters_are_no_arguments),
    ("a_fetch_is_described_at_bind", a_fetch_is_described_at_bind),
    ("statement_timeout_runs_across_messages", statement_timeout_runs_across_messages),
    ("statement_timeout_is_each_statements_own", statement_timeout_is_each_statements_own),
    ("fetch_and_move_on_a_portal_that_has_not_run", fetch_and_move_on_a_portal_that_has_not_run),
    ("a_composite_output_is_one_column", a_composite_output_is_one_column),
    ("closing_inside_of_what_runs", closing_inside_of_what_runs),
    ("functions_are_called_by_oid", functions_are_called_by_oid),
];

fn main() {
    let arguments = Arguments::from_args();
    let mut servers = Vec::new();
    if !arguments.list {
        servers.push(Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).expect("Cairn starts"));
        servers.extend(Server::postgres(&[("fsync", "off")]).expect("PostgreSQL starts"));
    }
    let servers = Arc::new(servers);
    let mut trials = Vec::new();
    for (place, with) in ["Cairn", "PostgreSQL"].into_iter().enumerate().take(servers.len().max(1)) {
        for (name, conversation) in CONVERSATIONS {
            let servers = Arc::clone(&servers);
            let hold = move || {
                conversation(&servers[place]);
                Ok(())
            };
            trials.push(Trial::test(format!("{with}/{name}"), hold));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The servers end with their values, which `exit` would not drop.
    let failed = conclusion.has_failed();
    drop(servers);
    std::process::exit(if failed { 101 } else { 0 });
}

/// A client that knows messages only. What is said waits in `unsent` until an answer is read.
struct Wire {
    socket: TcpStream,
    unsent: Vec<u8>,
}

impl Wire {
    fn connect(server: &Server) -> Wire {
        let socket = TcpStream::connect(("127.0.0.1", server.port())).expect("connects");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        let mut wire = Wire { socket, unsent: Vec::new() };
        let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
        wire.unsent.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        wire.unsent.extend_from_slice(body);
        wire.until('Z');
        wire
    }

    fn say(&mut self, kind: u8, parts: &[&[u8]]) -> &mut Wire {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.unsent.push(kind);
        self.unsent.extend_from_slice(&(length as u32 + 4).to_be_bytes());
        parts.iter().for_each(|part| self.unsent.extend_from_slice(part));
        self
    }

    fn parse(&mut self, name: &str, text: &str, types: &[u32]) -> &mut Wire {
        let mut oids = (types.len() as u16).to_be_bytes().to_vec();
        types.iter().for_each(|oid| oids.extend_from_slice(&oid.to_be_bytes()));
        self.say(b'P', &[name.as_bytes(), b"\0", text.as_bytes(), b"\0", &oids])
    }

    /// Values as text; `None` is NULL.
    fn bind(&mut self, portal: &str, statement: &str, values: &[Option<&str>]) -> &mut Wire {
        let list = values_list(values);
        self.say(b'B', &[portal.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0", &list, b"\0\0"])
    }

    /// `target`: `S` or `P`, and the name.
    fn describe(&mut self, target: &str) -> &mut Wire {
        self.say(b'D', &[target.as_bytes(), b"\0"])
    }

    fn execute(&mut self, portal: &str, rows: u32) -> &mut Wire {
        self.say(b'E', &[portal.as_bytes(), b"\0", &rows.to_be_bytes()])
    }

    /// FunctionCall; arguments and result as text.
    fn call(&mut self, function: u32, values: &[Option<&str>]) -> String {
        let list = values_list(values);
        self.say(b'F', &[&function.to_be_bytes(), b"\0\0", &list, b"\0\0"]).until('Z')
    }

    fn flush(&mut self) -> &mut Wire {
        self.say(b'H', &[])
    }

    fn sync(&mut self) -> &mut Wire {
        self.say(b'S', &[])
    }

    /// Parse, Bind and Execute of the unnamed statement.
    fn run(&mut self, text: &str) -> &mut Wire {
        self.parse("", text, &[]).bind("", "", &[]).execute("", 0)
    }

    /// A simple query and its answer.
    fn query(&mut self, text: &str) -> String {
        self.say(b'Q', &[text.as_bytes(), b"\0"]).until('Z')
    }

    /// The messages up to the first of this kind.
    fn until(&mut self, last: char) -> String {
        self.socket.write_all(&std::mem::take(&mut self.unsent)).expect("sends");
        let mut seen = String::new();
        loop {
            let (kind, body) = match self.next() {
                Ok(message) => message,
                Err(error) => panic!("{error} after: {seen}"),
            };
            if !matches!(kind, 'S' | 'K' | 'R') {
                seen.push_str(if seen.is_empty() { "" } else { " " });
                show(kind, &body, &mut seen);
            }
            if kind == last {
                return seen;
            }
        }
    }

    fn next(&mut self) -> io::Result<(char, Vec<u8>)> {
        let mut header = [0; 5];
        self.socket.read_exact(&mut header)?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.socket.read_exact(&mut body)?;
        Ok((char::from(header[0]), body))
    }
}

/// Values as messages carry them: their number, and each with its length.
fn values_list(values: &[Option<&str>]) -> Vec<u8> {
    let mut list = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        match value {
            Some(text) => {
                list.extend_from_slice(&(text.len() as u32).to_be_bytes());
                list.extend_from_slice(text.as_bytes());
            }
            None => list.extend_from_slice(&[0xff; 4]),
        }
    }
    list
}

/// Fields of an ErrorResponse or NoticeResponse.
fn fields(body: &[u8]) -> impl Iterator<Item = (char, String)> {
    let parts = body.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.map(|part| (char::from(part[0]), String::from_utf8_lossy(&part[1..]).into_owned()))
}

/// `1`, `D(1,2)`, `T(a,b)`, `C(SELECT 1)`, `E(22012 division by zero)`, `d[21]`, `ZI`.
fn show(kind: char, body: &[u8], seen: &mut String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    seen.push(kind);
    match kind {
        'Z' => seen.push(char::from(body[0])),
        'C' => write!(seen, "({})", text(&body[..body.len() - 1])).expect("writes"),
        'd' => write!(seen, "[{}]", body.len()).expect("writes"),
        'E' | 'N' => {
            let field = |wanted| fields(body).find(|(code, _)| *code == wanted).map(|(_, value)| value);
            let (state, message) = (field('C').unwrap_or_default(), field('M').unwrap_or_default());
            write!(seen, "({state} {message})").expect("writes");
        }
        'D' | 'V' => {
            let mut values = Vec::new();
            let mut rest = if kind == 'D' { &body[2..] } else { body };
            while let Some((length, tail)) = rest.split_first_chunk::<4>() {
                let length = usize::try_from(i32::from_be_bytes(*length)).ok();
                values.push(length.map_or("null".to_owned(), |length| text(&tail[..length])));
                rest = &tail[length.unwrap_or(0)..];
            }
            write!(seen, "({})", values.join(",")).expect("writes");
        }
        'T' => {
            let mut names = Vec::new();
            let mut rest = &body[2..];
            while let Some(end) = rest.iter().position(|byte| *byte == 0) {
                names.push(text(&rest[..end]));
                rest = &rest[end + 19..];
            }
            write!(seen, "({})", names.join(",")).expect("writes");
        }
        _ => {}
    }
}

fn an_error_leaves_at_once(server: &Server) {
    let mut wire = Wire::connect(server);
    // Neither Flush nor Sync is needed.
    assert_eq!(
        wire.parse("", "select", &[]).parse("", "selct 1", &[]).until('E'),
        "1 E(42601 syntax error at or near \"selct\")"
    );
    // Everything up to Sync is skipped, Flush too: its answer is on its way already.
    assert_eq!(wire.run("select 1").flush().sync().until('Z'), "ZI");
    assert_eq!(
        wire.bind("", "none", &[]).flush().until('E'),
        "E(26000 prepared statement \"none\" does not exist)"
    );
    assert_eq!(wire.sync().until('Z'), "ZI");
    // What came before the error is sent with it.
    let answer = wire.run("begin").run("select 1").execute("none", 0).flush().until('E');
    assert_eq!(answer, "1 2 C(BEGIN) 1 2 D(1) C(SELECT 1) E(34000 portal \"none\" does not exist)");
    assert_eq!(wire.sync().until('Z'), "ZE");
    assert_eq!(
        wire.parse("", "select 1", &[]).until('E'),
        "E(25P02 current transaction is aborted, commands ignored until end of transaction block)"
    );
    assert_eq!(wire.sync().until('Z'), "ZE");
    assert_eq!(wire.query("rollback"), "C(ROLLBACK) ZI");
    // A message that cannot be read.
    assert_eq!(wire.say(b'D', &[b"X\0"]).until('E'), "E(08P01 invalid DESCRIBE message subtype 88)");
    assert_eq!(wire.sync().until('Z'), "ZI");
}

fn errors_say_where_they_were_raised(server: &Server) {
    let mut wire = Wire::connect(server);
    wire.say(b'Q', &[b"select * from nowhere\0"]);
    wire.socket.write_all(&std::mem::take(&mut wire.unsent)).expect("sends");
    let (kind, body) = wire.next().expect("answers");
    assert_eq!(kind, 'E');
    let codes: String = fields(&body).map(|(code, _)| code).collect();
    assert_eq!(codes, "SVCMPFLR");
    let line = fields(&body).find(|(code, _)| *code == 'L').map(|(_, line)| line);
    assert!(line.is_some_and(|line| line.parse::<u32>().is_ok_and(|line| line > 0)));
    assert!(fields(&body).all(|(_, value)| !value.is_empty()));
    wire.until('Z');
}

fn a_statement_whose_result_changed_is_prepared_again(server: &Server) {
    let mut wire = Wire::connect(server);
    wire.query("create table reshaped (a int)");
    assert_eq!(wire.parse("s", "select * from reshaped", &[]).sync().until('Z'), "1 ZI");
    wire.query("alter table reshaped add column b int");
    wire.bind("", "s", &[]);
    wire.socket.write_all(&std::mem::take(&mut wire.unsent)).expect("sends");
    let (_, body) = wire.next().expect("answers");
    let field = |wanted| fields(&body).find(|(code, _)| *code == wanted).map(|(_, value)| value);
    assert_eq!(field('M').as_deref(), Some("cached plan must not change result type"));
    // Drivers ask for this one before they prepare again.
    assert_eq!(field('R').as_deref(), Some("RevalidateCachedQuery"));
    assert_eq!(wire.sync().until('Z'), "ZI");
}

fn constants_that_fail_are_left_to_the_execution(server: &Server) {
    const FAILS: &str = "E(22012 division by zero)";
    let mut wire = Wire::connect(server);
    assert_eq!(wire.parse("x", "select 1/0 as a", &[]).describe("Sx").sync().until('Z'), "1 t T(a) ZI");
    assert_eq!(wire.bind("", "x", &[]).execute("", 0).sync().until('Z'), format!("{FAILS} ZI"));
    // Values that rule the failure out.
    wire.parse("y", "select case when $1 then 1/0 else 1 end", &[]).sync().until('Z');
    assert_eq!(wire.bind("", "y", &[Some("f")]).execute("", 0).sync().until('Z'), "2 D(1) C(SELECT 1) ZI");
    assert_eq!(wire.bind("", "y", &[Some("t")]).execute("", 0).sync().until('Z'), format!("{FAILS} ZI"));
    // The same by SQL, and where a function is only defined.
    assert_eq!(wire.query("prepare p as select 1 where 1/0 = 1"), "C(PREPARE) ZI");
    assert_eq!(wire.query("execute p"), format!("{FAILS} ZI"));
    let answer = wire.query("create function failing() returns int language sql as 'select 1/0'");
    assert_eq!(answer, "C(CREATE FUNCTION) ZI");
    assert!(wire.query("select failing()").ends_with(&format!("{FAILS} ZI")));
}

fn binary_copy_sends_its_header_with_the_first_row(server: &Server) {
    let mut wire = Wire::connect(server);
    let three = "select g from generate_series(1, 3) g";
    let copied = wire.query(&format!("copy ({three}) to stdout binary"));
    assert_eq!(copied, "H d[29] d[10] d[10] d[2] c C(COPY 3) ZI");
    let copied = wire.query("copy (select 1 where false) to stdout binary");
    assert_eq!(copied, "H d[21] c C(COPY 0) ZI");
    let copied = wire.query(&format!("copy ({three}) to stdout csv header"));
    assert_eq!(copied, "H d[2] d[2] d[2] d[2] c C(COPY 3) ZI");
}

fn void_parameters_are_no_arguments(server: &Server) {
    const INT4: u32 = 23;
    const VOID: u32 = 2278;
    let mut wire = Wire::connect(server);
    wire.query("create function voided(a int, out b int, out c int) language sql as 'select a + 1, a + 2'");
    // As JDBC calls it: a parameter for each output, of type void.
    wire.parse("", "select * from voided($1, $2, $3) as result", &[INT4, VOID, VOID]).describe("S");
    let answer = wire.bind("", "", &[Some("1"), None, None]).execute("", 0).sync().until('Z');
    assert_eq!(answer, "1 t T(b,c) 2 D(2,3) C(SELECT 1) ZI");
    wire.query("create function voided() returns int language sql as 'select 7'");
    wire.parse("", "select voided($1) as result", &[VOID]).bind("", "", &[None]);
    assert_eq!(wire.execute("", 0).sync().until('Z'), "1 2 D(7) C(SELECT 1) ZI");
    // A procedure has an argument there, whose type it knows.
    wire.query("create procedure voided_too(a int, out b int) language plpgsql as 'begin b := a + 1; end'");
    wire.parse("", "call voided_too($1, $2)", &[INT4, VOID]).bind("", "", &[Some("1"), None]);
    assert_eq!(wire.describe("P").execute("", 0).sync().until('Z'), "1 2 T(b) D(2) C(CALL) ZI");
    // Only parameters: a call of a void function is an argument.
    wire.query("create function nothing() returns void language sql as ''");
    let answer = wire.parse("", "select voided(nothing())", &[]).until('E');
    assert_eq!(answer, "E(42883 function voided(void) does not exist)");
    wire.sync().until('Z');
}

fn a_fetch_is_described_at_bind(server: &Server) {
    let mut wire = Wire::connect(server);
    let prepared = wire.parse("f", "fetch all from late", &[]).describe("Sf").sync().until('Z');
    assert_eq!(prepared, "1 t n ZI");
    wire.query("begin; declare late cursor for select 1 as a, 2 as b");
    let fetched = wire.bind("", "f", &[]).describe("P").execute("", 0).sync().until('Z');
    assert_eq!(fetched, "2 T(a,b) D(1,2) C(FETCH 1) ZT");
    // Another cursor of that name, and another catalog.
    wire.query("close late; create temporary table fresh (a int); declare late cursor for select 3 as c");
    let fetched = wire.bind("", "f", &[]).describe("P").execute("", 0).sync().until('Z');
    assert_eq!(fetched, "2 T(c) D(3) C(FETCH 1) ZT");
    // The same for EXECUTE.
    wire.parse("e", "execute later", &[]).sync().until('Z');
    wire.query("prepare later as select 4 as d");
    let executed = wire.bind("", "e", &[]).describe("P").execute("", 0).sync().until('Z');
    assert_eq!(executed, "2 T(d) D(4) C(SELECT 1) ZT");
    wire.query("rollback; deallocate later");
}

const TIMED_OUT: &str = "E(57014 canceling statement due to statement timeout)";

fn statement_timeout_runs_across_messages(server: &Server) {
    let mut wire = Wire::connect(server);
    wire.query("set statement_timeout = '1.5s'");
    // In portions: each takes less than the timeout, all together more.
    wire.parse("", "select pg_sleep(0.9) from generate_series(1, 4)", &[]).bind("", "", &[]);
    let answer = wire.execute("", 1).execute("", 1).execute("", 1).sync().until('Z');
    assert_eq!(answer, format!("1 2 D() s {TIMED_OUT} ZI"));
    // Each statement that completes gives the next one the whole time.
    let sleep = "select pg_sleep(0.9)";
    let answer = wire.run(sleep).run(sleep).run(sleep).sync().until('Z');
    assert_eq!(answer, "1 2 D() C(SELECT 1) 1 2 D() C(SELECT 1) 1 2 D() C(SELECT 1) ZI");
    wire.query("reset statement_timeout");
}

fn statement_timeout_is_each_statements_own(server: &Server) {
    let mut wire = Wire::connect(server);
    let answer = wire.query("set statement_timeout = '100ms'; select pg_sleep(20)");
    assert_eq!(answer, format!("C(SET) T(pg_sleep) {TIMED_OUT} ZI"));
    // The failed string was one transaction: the setting is taken back.
    wire.query("set statement_timeout = '1.5s'");
    let answer = wire
        .query("select pg_sleep(0.9); select pg_sleep(0.9); set statement_timeout = 0; select pg_sleep(1.6)");
    assert_eq!(
        answer,
        "T(pg_sleep) D() C(SELECT 1) T(pg_sleep) D() C(SELECT 1) C(SET) T(pg_sleep) D() C(SELECT 1) ZI"
    );
}

fn fetch_and_move_on_a_portal_that_has_not_run(server: &Server) {
    let mut wire = Wire::connect(server);
    wire.query("begin");
    wire.parse("", "select g from generate_series(1, 6) g", &[]).bind("p", "", &[]).sync().until('Z');
    assert_eq!(wire.query("move 2 from p"), "C(MOVE 2) ZT");
    assert_eq!(wire.query("fetch 1 from p"), "T(g) D(3) C(FETCH 1) ZT");
    assert_eq!(wire.execute("p", 2).sync().until('Z'), "D(4) D(5) s ZT");
    assert_eq!(wire.query("fetch all from p"), "T(g) D(6) C(FETCH 1) ZT");
    // Rows of what has run to its end.
    wire.query("create temporary table fetched (a int)");
    let insert = "insert into fetched values (1), (2), (3) returning a";
    wire.parse("", insert, &[]).bind("q", "", &[]).sync().until('Z');
    assert_eq!(wire.query("fetch 2 from q"), "T(a) D(1) D(2) C(FETCH 2) ZT");
    assert_eq!(wire.query("select count(*) from fetched"), "T(count) D(3) C(SELECT 1) ZT");
    wire.parse("", "show work_mem", &[]).bind("r", "", &[]).sync().until('Z');
    assert_eq!(wire.query("fetch all from r"), "T(work_mem) D(4MB) C(FETCH 1) ZT");
    // A portal goes forward only.
    wire.parse("", "select 1", &[]).bind("b", "", &[]).sync().until('Z');
    assert_eq!(wire.query("fetch backward 1 from b"), "E(55000 cursor can only scan forward) ZE");
    wire.query("rollback");
}

fn a_composite_output_is_one_column(server: &Server) {
    let mut wire = Wire::connect(server);
    wire.query("create type pair as (a int, b text)");
    wire.query("create procedure one(inout x pair) language plpgsql as 'begin x.a := x.a + 1; end'");
    assert_eq!(wire.query("call one(row(1, 'x'))"), "T(x) D((2,x)) C(CALL) ZI");
    wire.query("create procedure two(inout x pair) language sql as 'select row((x).a + 2, (x).b)::pair'");
    assert_eq!(wire.query("call two(row(1, 'x'))"), "T(x) D((3,x)) C(CALL) ZI");
    let answer = wire.run("call one(row(5, 'y'))").sync().until('Z');
    assert_eq!(answer, "1 2 D((6,y)) C(CALL) ZI");
    wire.query("drop type pair cascade");
}

fn closing_inside_of_what_runs(server: &Server) {
    let mut wire = Wire::connect(server);
    wire.query("begin; declare c1 cursor for select 1; declare c2 cursor for select 2");
    assert_eq!(wire.query("close all"), "C(CLOSE CURSOR ALL) ZT");
    assert_eq!(wire.run("close all").sync().until('Z'), "1 2 C(CLOSE CURSOR ALL) ZT");
    // A cursor whose own query closes it, or asks for its rows.
    wire.query("rollback; create function does(t text) returns int language plpgsql as 'begin execute t; return 1; end'");
    for (text, answer) in [
        ("close c", "E(24000 cannot drop active portal \"c\") ZE"),
        ("move c", "E(55000 portal \"c\" cannot be run) ZE"),
        ("close all", "T(does) D(1) C(FETCH 1) ZT"),
    ] {
        wire.query(&format!("begin; declare c cursor for select does('{text}')"));
        assert_eq!(wire.query("fetch c"), answer, "{text}");
        wire.query("rollback");
    }
    // A holdable one, which runs at COMMIT: it is gone when that fails.
    wire.query("begin; declare c cursor with hold for select does('close c')");
    assert_eq!(wire.query("commit"), "E(24000 cannot drop active portal \"c\") ZI");
    assert_eq!(wire.query("fetch c"), "E(34000 cursor \"c\" does not exist) ZI");
    wire.query("drop function does");
}

fn functions_are_called_by_oid(server: &Server) {
    const INT4PL: u32 = 177;
    const GENERATE_SERIES: u32 = 1067;
    const SUM: u32 = 2108;
    const INT4DIV: u32 = 154;
    let mut wire = Wire::connect(server);
    assert_eq!(wire.call(INT4PL, &[Some("40"), Some("2")]), "V(42) ZI");
    assert_eq!(wire.call(INT4PL, &[Some("40"), None]), "V(null) ZI");
    assert_eq!(wire.call(INT4DIV, &[Some("1"), Some("0")]), "E(22012 division by zero) ZI");
    let answer = wire.call(INT4PL, &[Some("x"), None]);
    assert_eq!(answer, "E(22P02 invalid input syntax for type integer: \"x\") ZI");
    let answer = wire.call(INT4PL, &[Some("1")]);
    assert_eq!(answer, "E(08P01 function call message contains 1 arguments but function requires 2) ZI");
    assert_eq!(wire.call(0, &[]), "E(42883 function with OID 0 does not exist) ZI");
    for (oid, name) in [(GENERATE_SERIES, "generate_series"), (SUM, "sum")] {
        let answer = wire.call(oid, &[Some("1"), Some("2")]);
        assert_eq!(answer, format!("E(0A000 cannot call function \"{name}\" via fastpath interface) ZI"));
    }
    // In binary: an argument, and the result.
    let binary = [
        &INT4PL.to_be_bytes()[..],
        b"\0\x01\0\x01",
        b"\0\x02\0\0\0\x04\0\0\0\x28\0\0\0\x04\0\0\0\x02",
        b"\0\x01",
    ];
    wire.say(b'F', &binary);
    wire.socket.write_all(&std::mem::take(&mut wire.unsent)).expect("sends");
    assert_eq!(wire.next().expect("answers"), ('V', b"\0\0\0\x04\0\0\0\x2a".to_vec()));
    assert_eq!(wire.until('Z'), "ZI");
    // A function of the user's: in the transaction, and not in one that has failed.
    wire.query("create table called (a int)");
    wire.query("create function note(a int) returns void language sql as 'insert into called values (a)'");
    let oid = wire.query("select 'note'::regproc::oid");
    let oid = oid.split(['(', ')']).nth(3).and_then(|oid| oid.parse().ok()).expect("an oid");
    assert_eq!(wire.call(oid, &[Some("1")]), "V(null) ZI");
    wire.query("begin");
    assert_eq!(wire.call(oid, &[Some("2")]), "V(null) ZT");
    assert_eq!(wire.call(INT4DIV, &[Some("1"), Some("0")]), "E(22012 division by zero) ZE");
    let failed =
        "E(25P02 current transaction is aborted, commands ignored until end of transaction block) ZE";
    assert_eq!(wire.call(INT4PL, &[Some("1"), Some("1")]), failed);
    wire.query("rollback");
    assert_eq!(wire.query("select a from called"), "T(a) D(1) C(SELECT 1) ZI");
}
