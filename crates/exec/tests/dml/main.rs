//! INSERT, UPDATE, DELETE, constraints and row locks over the real store, with PostgreSQL's texts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "examples/dml_bench.rs uses the rest of it")]
mod bench;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use bench::{Bench, Session, Table, entries, report};
use cairn_catalog::ForeignKeyAction;
use cairn_exec::dml::{ConstraintMark, row_number};
use cairn_txn::{Clock, Isolation, Resources, SavepointId, TimeSource};
use cairn_types::types::{INT4, INT8, NUMERIC, TEXT};

fn simple() -> Arc<Bench> {
    Bench::new(vec![
        Table::new(20000, "t", &[("a", INT4), ("b", TEXT), ("c", INT4)])
            .primary_key(&["a"])
            .index("t_b", &["b"], |_| {})
            .unique("t_c_key", &["c"]),
        Table::new(20100, "plain", &[("x", INT4), ("y", TEXT)]).index("plain_y", &["y"], |_| {}),
    ])
}

#[test]
fn rows_and_their_index_entries() {
    let bench = simple();
    let mut session = bench.session();
    assert_eq!(session.ok("insert into t values (2, 'two', 20), (1, 'one', 10), (3, 'three', null)"), 3);
    assert_eq!(session.table("t"), ["1|one|10", "2|two|20", "3|three|null"]);
    assert_eq!(session.ok("update t set b = 'zwei', c = c + 1 where a = 2"), 1);
    assert_eq!(session.ok("update t set c = c where a = 2"), 1);
    assert_eq!(session.table("t"), ["1|one|10", "2|zwei|21", "3|three|null"]);
    assert_eq!(session.ok("update t set a = 9 where a = 2"), 1);
    assert_eq!(session.ok("delete from t where a = 1"), 1);
    assert_eq!(session.table("t"), ["3|three|null", "9|zwei|21"]);
    // What was deleted can come again, its unique values too.
    assert_eq!(session.ok("insert into t values (1, 'one', 10), (2, 'two', 20)"), 2);
    assert_eq!(session.ok("delete from t"), 4);
    assert!(session.table("t").is_empty());
}

#[test]
fn tables_without_a_primary_key() {
    let bench = simple();
    let mut session = bench.session();
    session.ok("insert into plain values (2, 'b'), (1, 'a'), (2, 'b')");
    assert_eq!(session.table("plain"), ["2|b", "1|a", "2|b"], "in order of insertion");
    assert_eq!(session.ok("update plain set y = 'c' where x = 2"), 2);
    assert_eq!(session.ok("delete from plain where x = 1"), 1);
    assert_eq!(session.table("plain"), ["2|c", "2|c"]);
}

/// A wall clock that is set by hand.
struct Hand(AtomicI64);

impl TimeSource for Hand {
    fn now_micros(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn hidden_row_numbers_never_come_again() {
    const SECOND: i64 = 1_000_000;
    let hand = Arc::new(Hand(AtomicI64::new(5_000 * SECOND)));
    let mut directory = tempfile::tempdir().unwrap();
    let mut rows = 0;
    for round in 0..4 {
        let tables = vec![Table::new(20100, "plain", &[("x", INT4), ("y", TEXT)])];
        let resources = Resources::new(16 << 20, 8 << 20);
        let bench = Bench::open(tables, resources, directory, Clock::new(hand.clone()));
        let mut session = bench.session();
        let insert = "insert into plain select g, 'x' from generate_series(1, 50) g";
        session.begin(Isolation::ReadCommitted);
        session.ok(insert);
        let number = row_number::next(&*bench.store);
        // The clock goes back before the commit, again after it, and from round to round.
        hand.0.fetch_sub(100 * SECOND, Ordering::Relaxed);
        assert!(bench.store.now().0 >= number, "the commit is going to be later than its rows' numbers");
        session.commit().unwrap();
        hand.0.fetch_sub(100 * SECOND, Ordering::Relaxed);
        session.ok(insert);
        hand.0.fetch_add(150 * SECOND, Ordering::Relaxed);
        session.ok(insert);
        rows += 150;
        assert_eq!(session.table("plain").len(), rows, "round {round}");
        drop(session);
        directory = bench.close();
    }
}

#[test]
fn returning_sees_the_row_as_written() {
    let bench = simple();
    let mut session = bench.session();
    assert_eq!(
        session.rows("insert into t values (1, 'x', 5), (2, 'y', 6) returning a, c * 2, b"),
        ["1|10|x", "2|12|y"]
    );
    assert_eq!(session.rows("update t set a = a + 10, c = 7 where a = 1 returning a, c, b"), ["11|7|x"]);
    assert_eq!(session.rows("delete from t where a = 2 returning *"), ["2|y|6"]);
}

#[test]
fn unique_violations() {
    let bench = simple();
    let mut session = bench.session();
    session.ok("insert into t values (1, 'x', 5)");
    assert_eq!(
        session.fails("insert into t values (1, 'x', 5)"),
        "23505 duplicate key value violates unique constraint \"t_pkey\" / Key (a)=(1) already exists."
    );
    assert_eq!(
        session.fails("insert into t values (2, 'x', 5)"),
        "23505 duplicate key value violates unique constraint \"t_c_key\" / Key (c)=(5) already exists."
    );
    session.ok("insert into t values (2, 'x', null), (3, 'x', null)");
    assert!(session.fails("update t set c = 5 where a = 2").contains("Key (c)=(5) already exists."));
    assert!(session.fails("update t set a = 1 where a = 2").contains("Key (a)=(1) already exists."));
    assert!(
        session
            .fails("insert into t values (7, 'a', 8), (7, 'b', 9)")
            .contains("Key (a)=(7) already exists.")
    );
    assert_eq!(session.table("t"), ["1|x|5", "2|x|null", "3|x|null"]);
}

#[test]
fn null_and_check_constraints() {
    let bench = Bench::new(vec![
        Table::new(20000, "t", &[("a", INT4), ("b", TEXT), ("c", INT4)])
            .primary_key(&["a"])
            .not_null("b")
            .check("t_c_check", "c > 0")
            .check("t_a_check", "a < 100")
            .change("c", |column| column.default = Some("7".into())),
    ]);
    let mut session = bench.session();
    assert_eq!(
        session.fails("insert into t values (1, null, 3)"),
        "23502 null value in column \"b\" of relation \"t\" violates not-null constraint / Failing row contains (1, null, 3)."
    );
    assert_eq!(
        session.fails("insert into t values (1, 'x', -3)"),
        "23514 new row for relation \"t\" violates check constraint \"t_c_check\" / Failing row contains (1, x, -3)."
    );
    assert!(session.fails("insert into t values (200, 'x', -3)").contains("t_a_check"), "in order of names");
    session.ok("insert into t values (1, 'x', null)");
    session.ok("insert into t (a, b) values (2, 'y')");
    assert!(session.fails("update t set b = null").contains("Failing row contains (1, null, null)."));
    assert_eq!(session.table("t"), ["1|x|null", "2|y|7"]);
}

#[test]
fn generated_columns_follow() {
    let bench = Bench::new(vec![
        Table::new(20000, "t", &[("a", INT4), ("b", INT4)])
            .primary_key(&["a"])
            .change("b", |column| {
                column.generated = true;
                column.default = Some("a * 2".into());
            })
            .index("t_b", &["b"], |_| {}),
    ]);
    let mut session = bench.session();
    session.ok("insert into t (a) values (1), (5)");
    session.ok("update t set a = 3 where a = 1");
    assert_eq!(session.table("t"), ["3|6", "5|10"]);
}

#[test]
fn partial_and_expression_indexes() {
    let bench = Bench::new(vec![
        Table::new(20000, "t", &[("a", INT4), ("b", TEXT)])
            .primary_key(&["a"])
            .index("t_part", &["b"], |index| {
                index.unique = true;
                index.predicate = Some("a > 10".into());
            })
            .index("t_lower", &["(lower(b)"], |index| index.unique = true),
    ]);
    let mut session = bench.session();
    session.ok("insert into t values (1, 'A'), (11, 'B')");
    assert_eq!((entries(&mut session, "t_part"), entries(&mut session, "t_lower")), (1, 2));
    assert_eq!(
        session.fails("insert into t values (2, 'a')"),
        "23505 duplicate key value violates unique constraint \"t_lower\" / Key (lower(b))=(a) already exists."
    );
    session.ok("update t set a = 12 where a = 1");
    assert_eq!(entries(&mut session, "t_part"), 2);
    session.ok("update t set a = 2 where a = 11");
    assert_eq!(entries(&mut session, "t_part"), 1);
    session.ok("delete from t");
    assert_eq!((entries(&mut session, "t_part"), entries(&mut session, "t_lower")), (0, 0));
}

#[test]
fn on_conflict() {
    let bench = simple();
    let mut session = bench.session();
    session.ok("insert into t values (1, 'x', 5)");
    assert_eq!(
        session.ok("insert into t values (1, 'n', 6), (2, 'n', 5), (3, 'n', 7) on conflict do nothing"),
        1
    );
    assert_eq!(session.ok("insert into t values (1, 'n', 6) on conflict (a) do nothing"), 0);
    assert_eq!(
        session.rows("insert into t values (1, 'u', 8), (4, 'u', 9) on conflict (a) do update set b = excluded.b || t.b, c = excluded.c returning a, b, c"),
        ["1|ux|8", "4|u|9"]
    );
    assert_eq!(
        session
            .ok("insert into t values (9, 'w', 8) on conflict (c) do update set b = 'via c' where t.a = 1"),
        1
    );
    assert_eq!(
        session.ok("insert into t values (9, 'w', 8) on conflict (c) do update set b = 'no' where t.a = 2"),
        0
    );
    assert_eq!(session.table("t"), ["1|via c|8", "3|n|7", "4|u|9"]);
    assert_eq!(
        session.fails("insert into t values (5, 'u', 1), (5, 'u', 2) on conflict (a) do update set b = 'x'"),
        "21000 ON CONFLICT DO UPDATE command cannot affect row a second time"
    );
    // Another unique index than the arbiter.
    assert!(session.fails("insert into t values (6, 'u', 9) on conflict (a) do nothing").contains("t_c_key"));
    assert_eq!(session.ok("insert into t values (7, 'p', 70), (7, 'q', 71) on conflict do nothing"), 1);
}

#[test]
fn a_second_writer_waits_and_looks_again() {
    let bench = simple();
    let mut first = bench.session();
    first.ok("insert into t values (1, 'x', 5), (2, 'y', 6)");
    first.begin(Isolation::ReadCommitted);
    first.ok("update t set c = c + 10 where a = 1");
    first.ok("delete from t where a = 2");
    let waiting = |sql: &'static str| {
        let mut other = bench.session();
        let waiting = thread::spawn(move || other.run(sql));
        // In this order into the queue.
        thread::sleep(Duration::from_millis(50));
        waiting
    };
    let adds = waiting("update t set c = c + 100 where a = 1 returning c");
    let misses = waiting("update t set b = 'never' where a = 1 and c = 5");
    let deleted = waiting("update t set b = 'gone' where a = 2");
    let inserts = waiting("insert into t values (2, 'again', 60)");
    first.commit().unwrap();
    assert_eq!(adds.join().unwrap().unwrap().rows, ["115"]);
    assert_eq!(misses.join().unwrap().unwrap().processed, 0);
    assert_eq!(deleted.join().unwrap().unwrap().processed, 0);
    assert_eq!(inserts.join().unwrap().unwrap().processed, 1);
    assert_eq!(first.table("t"), ["1|x|115", "2|again|60"]);
}

#[test]
fn a_second_inserter_waits_for_the_first() {
    let bench = simple();
    for (ends_well, values) in [(true, "(1, 'x', 5)"), (false, "(2, 'x', 5)")] {
        let mut first = bench.session();
        first.begin(Isolation::ReadCommitted);
        first.ok(&format!("insert into t values {values}"));
        let mut other = bench.session();
        let sql = format!("insert into t values {values}");
        let second = thread::spawn(move || other.run(&sql));
        thread::sleep(Duration::from_millis(50));
        if ends_well {
            first.commit().unwrap();
            let error = second.join().unwrap().unwrap_err();
            assert!(report(&error).contains("t_pkey"));
            first.ok("delete from t");
        } else {
            first.rollback();
            assert_eq!(second.join().unwrap().unwrap().processed, 1);
        }
    }
}

#[test]
fn repeatable_read_fails_where_the_row_changed() {
    let bench = simple();
    let mut first = bench.session();
    first.ok("insert into t values (1, 'x', 5), (2, 'y', 6)");
    let mut other = bench.session();
    other.begin(Isolation::RepeatableRead);
    assert_eq!(other.ok("update t set b = 'mine' where a = 2"), 1);
    first.ok("update t set c = 50 where a = 1");
    assert_eq!(
        other.fails("update t set c = 51 where a = 1"),
        "40001 could not serialize access due to concurrent update"
    );
    other.rollback();
    other.begin(Isolation::RepeatableRead);
    assert_eq!(other.ok("update t set b = 'mine' where a = 2"), 1);
    first.ok("insert into t values (3, 'z', 7)");
    assert_eq!(
        other.fails("insert into t values (3, 'w', 8) on conflict (a) do update set b = 'w'"),
        "40001 could not serialize access due to concurrent update"
    );
    assert!(other.fails("insert into t values (3, 'w', 8)").starts_with("23505"));
    other.rollback();
}

fn family(action: impl Fn(&mut cairn_catalog::Constraint)) -> Arc<Bench> {
    let mut parent = Table::new(20000, "parent", &[("id", INT4), ("code", TEXT)])
        .primary_key(&["id"])
        .unique("parent_code_key", &["code"]);
    let child = Table::new(20100, "child", &[("id", INT4), ("pid", INT8), ("code", TEXT)])
        .primary_key(&["id"])
        .change("pid", |column| column.default = Some("1".into()))
        .references(&["pid"], &mut parent, &["id"], &action)
        .references(&["code"], &mut parent, &["code"], &action)
        .index("child_pid", &["pid"], |_| {});
    Bench::new(vec![parent, child])
}

#[test]
fn foreign_keys_no_action() {
    let bench = family(|_| {});
    let mut session = bench.session();
    session.ok("insert into parent values (1, 'a'), (2, 'b'), (3, 'c')");
    session.ok("insert into child values (10, 1, 'a'), (11, null, 'b'), (12, 2, null)");
    assert_eq!(
        session.fails("insert into child values (13, 9, 'a')"),
        "23503 insert or update on table \"child\" violates foreign key constraint \"child_pid_fkey\" / \
         Key (pid)=(9) is not present in table \"parent\"."
    );
    assert_eq!(
        session.fails("update child set code = 'zz' where id = 10"),
        "23503 insert or update on table \"child\" violates foreign key constraint \"child_code_fkey\" / \
         Key (code)=(zz) is not present in table \"parent\"."
    );
    assert_eq!(
        session.fails("delete from parent where id = 1"),
        "23503 update or delete on table \"parent\" violates foreign key constraint \"child_pid_fkey\" on table \"child\" / \
         Key (id)=(1) is still referenced from table \"child\"."
    );
    assert!(
        session
            .fails("update parent set code = 'q' where id = 2")
            .contains("Key (code)=(b) is still referenced")
    );
    assert!(
        session.fails("update parent set id = 20 where id = 2").contains("Key (id)=(2) is still referenced")
    );
    session.ok("update parent set code = 'cc', id = 30 where id = 3");
    session.ok("delete from child where id < 12");
    session.ok("delete from parent where id = 1");
    assert_eq!(session.table("parent"), ["2|b", "30|cc"]);
}

#[test]
fn foreign_keys_cascade() {
    let bench = family(|key| {
        key.on_delete = ForeignKeyAction::Cascade;
        key.on_update = ForeignKeyAction::Cascade;
    });
    let mut session = bench.session();
    session.ok("insert into parent values (1, 'a'), (2, 'b')");
    session.ok("insert into child values (10, 1, 'a'), (11, 1, 'b'), (12, 2, null)");
    session.ok("update parent set id = id + 100, code = code || '!'");
    assert_eq!(session.table("child"), ["10|101|a!", "11|101|b!", "12|102|null"]);
    session.ok("delete from parent where id = 102");
    assert_eq!(session.table("child"), ["10|101|a!"]);
}

#[test]
fn foreign_keys_set_null_and_default() {
    for (action, expected) in [
        (ForeignKeyAction::SetNull, ["10|null|null", "11|null|null"]),
        (ForeignKeyAction::SetDefault, ["10|1|null", "11|1|null"]),
    ] {
        let bench = family(move |key| key.on_delete = action);
        let mut session = bench.session();
        session.ok("insert into parent values (1, 'a'), (2, 'b')");
        session.ok("insert into child values (10, 2, null), (11, 2, 'b')");
        session.ok("delete from parent where id = 2");
        assert_eq!(session.table("child"), expected);
    }
}

#[test]
fn a_row_may_refer_to_one_that_comes_later_in_the_statement() {
    let table = Table::new(20000, "tree", &[("id", INT4), ("up", INT4)])
        .primary_key(&["id"])
        .references_itself(&["up"], &["id"]);
    let bench = Bench::new(vec![table]);
    let mut session = bench.session();
    session.ok("insert into tree values (1, 2), (2, 3), (3, null)");
    assert!(session.fails("delete from tree where id = 2").starts_with("23503"));
    assert!(session.fails("insert into tree values (4, 5)").starts_with("23503"));
    assert_eq!(session.ok("delete from tree"), 3);
}

/// Events behind the first few thousand wait in a file; the first and the last are checked alike, in their order.
#[test]
fn more_checks_than_stay_in_memory() {
    const ROWS: u64 = 5000;
    let mut parent = Table::new(20000, "parent", &[("id", INT4), ("note", TEXT)]).primary_key(&["id"]);
    let cascade = |key: &mut cairn_catalog::Constraint| {
        key.on_delete = ForeignKeyAction::Cascade;
        key.on_update = ForeignKeyAction::Cascade;
    };
    let child = Table::new(20100, "child", &[("id", INT4), ("pid", INT4)])
        .primary_key(&["id"])
        .references(&["pid"], &mut parent, &["id"], cascade)
        .index("child_pid", &["pid"], |_| {});
    let bench = Bench::new(vec![parent, child]);
    let mut session = bench.session();
    let numbers = format!("generate_series(1, {ROWS}) g");
    session.ok(&format!("insert into parent select g, 'x' from {numbers}"));
    // The last row is at fault, then the first.
    assert!(
        session
            .fails(&format!("insert into child select g, g + 1 from {numbers}"))
            .contains(&format!("Key (pid)=({}) is not present", ROWS + 1))
    );
    assert!(
        session
            .fails(&format!("insert into child select g, g - 1 from {numbers}"))
            .contains("Key (pid)=(0) is not present")
    );
    assert_eq!(session.ok(&format!("insert into child select g, g from {numbers}")), ROWS);
    assert_eq!(session.ok("update parent set id = id + 100000"), ROWS);
    assert_eq!(session.ok("update child set pid = pid where pid = id + 100000"), ROWS);
    assert_eq!(session.ok("delete from parent"), ROWS);
    assert!(session.table("child").is_empty());
}

#[test]
fn deferred_foreign_keys() {
    let bench = family(|key| {
        key.deferrable = true;
        key.deferred = true;
    });
    let mut session = bench.session();
    session.begin(Isolation::ReadCommitted);
    session.ok("insert into child values (10, 1, null)");
    session.ok("insert into parent values (1, 'a')");
    session.commit().unwrap();
    session.begin(Isolation::ReadCommitted);
    session.ok("delete from parent where id = 1");
    let error = session.commit().unwrap_err();
    assert!(report(&error).contains("is still referenced"), "{error:?}");
    session.begin(Isolation::ReadCommitted);
    session.ok("delete from parent where id = 1");
    session.ok("insert into parent values (1, 'new')");
    session.commit().unwrap();
    session.begin(Isolation::ReadCommitted);
    session.ok("insert into child values (11, 77, null)");
    let error = session.with_context(|cx, _| cx.constraints.set_mode(cx, None, false)).unwrap_err();
    assert!(report(&error).contains("Key (pid)=(77) is not present"));
    session.ok("delete from child where id = 11");
    session.with_context(|cx, _| cx.constraints.set_mode(cx, None, false)).unwrap();
    assert!(session.fails("insert into child values (12, 77, null)").starts_with("23503"), "immediate now");
    session.commit().unwrap();
}

/// A family whose foreign keys are checked at the commit, and so many parents and children that their checks wait in a file.
fn deferred_family() -> Arc<Bench> {
    family(|key| {
        key.deferrable = true;
        key.deferred = true;
    })
}

const MORE_THAN_IN_MEMORY: usize = 5000;
/// Of `child (pid)`, and of `child (code)`.
const FOREIGN_KEYS: [u32; 2] = [20150, 20151];

fn savepoint(session: &Session) -> (SavepointId, ConstraintMark) {
    session.with_context(|cx, _| (cx.txn.savepoint(), cx.constraints.mark()))
}

fn rollback_to(session: &Session, (savepoint, mark): &(SavepointId, ConstraintMark)) {
    session.with_context(|cx, _| {
        cx.txn.rollback_to(*savepoint).unwrap();
        cx.constraints.rollback_to(mark);
    });
}

fn set_mode(session: &Session, constraints: Option<&[u32]>, deferred: bool) -> Result<(), String> {
    let set = session.with_context(|cx, _| cx.constraints.set_mode(cx, constraints, deferred));
    set.map_err(|error| report(&error))
}

/// Children with these numbers, each of the parent with the same number.
fn children(session: &mut Session, from: usize, to: usize) {
    session.ok(&format!("insert into child select g, g, null from generate_series({from}, {to}) g"));
}

fn parents(session: &mut Session, from: usize, to: usize) {
    session.ok(&format!("insert into parent select g, 'x' || g from generate_series({from}, {to}) g"));
}

#[test]
fn more_deferred_checks_than_stay_in_memory() {
    let last = MORE_THAN_IN_MEMORY;
    let bench = deferred_family();
    let mut session = bench.session();
    // Children first, then their parents. Each statement has a plan of its own, but its checks are of the same kind.
    session.begin(Isolation::ReadCommitted);
    children(&mut session, 1, last - 20);
    for child in last - 19..=last {
        children(&mut session, child, child);
    }
    let queue = format!("{:?}", session.constraints);
    assert!(queue.contains(&format!("length: {last}, shapes: 1")), "{queue}");
    parents(&mut session, 1, last);
    session.commit().unwrap();
    assert_eq!(session.table("child").len(), last);
    session.ok("delete from child");
    session.ok("delete from parent");
    // What is wrong is found where it was queued first, in memory or in the file.
    for (wrong, found) in [(vec![last], last), (vec![1, last], 1), (vec![last - 1, last], last - 1)] {
        session.begin(Isolation::ReadCommitted);
        children(&mut session, 1, last);
        parents(&mut session, 1, last);
        for parent in wrong {
            session.ok(&format!("update parent set id = -id where id = {parent}"));
        }
        let error = report(&session.commit().unwrap_err());
        assert!(error.contains(&format!("Key (pid)=({found}) is not present")), "{error}");
    }
    // Parents that go, back where their children are; two kinds of checks.
    session.begin(Isolation::ReadCommitted);
    parents(&mut session, 1, last);
    children(&mut session, 1, last);
    session.commit().unwrap();
    session.begin(Isolation::ReadCommitted);
    session.ok("delete from parent");
    session.ok("delete from child where id > 1");
    let error = report(&session.commit().unwrap_err());
    assert!(error.contains("Key (id)=(1) is still referenced"), "{error}");
}

#[test]
fn a_savepoint_takes_deferred_checks_back() {
    let bench = deferred_family();
    let mut session = bench.session();
    parents(&mut session, 1, MORE_THAN_IN_MEMORY);
    // Savepoints in what is in memory, at its end, and in what is in the file.
    for before in [10, 3999, 4000, 4001, 4500] {
        for wrong in [None, Some(before), Some(before + 70)] {
            let number_or_wrong = |child: usize| if wrong == Some(child) { 90_000 } else { child };
            session.begin(Isolation::ReadCommitted);
            children(&mut session, 1, before - 1);
            session.ok(&format!("insert into child values ({before}, {}, null)", number_or_wrong(before)));
            let point = savepoint(&session);
            children(&mut session, 20_001, 20_000 + if before < 4000 { MORE_THAN_IN_MEMORY } else { 300 });
            rollback_to(&session, &point);
            let queue = format!("{:?}", session.constraints);
            assert!(queue.contains(&format!("length: {before},")), "{queue}");
            children(&mut session, before + 1, before + 69);
            let last = before + 70;
            session.ok(&format!("insert into child values ({last}, {}, null)", number_or_wrong(last)));
            let committed = session.commit().map_err(|error| report(&error));
            match wrong {
                None => {
                    committed.unwrap();
                    assert_eq!(session.ok("delete from child"), last as u64);
                }
                Some(_) => {
                    let error = committed.unwrap_err();
                    assert!(error.contains("Key (pid)=(90000) is not present"), "{error}");
                }
            }
        }
    }
}

#[test]
fn deferred_checks_are_made_when_they_become_immediate() {
    let last = MORE_THAN_IN_MEMORY;
    let bench = deferred_family();
    let mut session = bench.session();
    session.begin(Isolation::ReadCommitted);
    children(&mut session, 1, last);
    parents(&mut session, 1, last - 1);
    // An error changes nothing.
    let error = set_mode(&session, None, false).unwrap_err();
    assert!(error.contains(&format!("Key (pid)=({last}) is not present")), "{error}");
    parents(&mut session, last, last);
    set_mode(&session, None, false).unwrap();
    assert!(session.fails("insert into child values (0, 77777, null)").starts_with("23503"), "immediate now");
    // One constraint, and then the other.
    set_mode(&session, None, true).unwrap();
    session.ok("insert into child values (-1, 1, 'nobody'), (-2, 99999, null)");
    session.ok("insert into child select g, null, 'x1' from generate_series(10001, 15000) g");
    let [of_pid, of_code] = FOREIGN_KEYS;
    let error = set_mode(&session, Some(&[of_code]), false).unwrap_err();
    assert!(error.contains("Key (code)=(nobody) is not present"), "{error}");
    session.ok("update child set code = null where id = -1");
    set_mode(&session, Some(&[of_code]), false).unwrap();
    assert!(session.fails("insert into child values (0, 1, 'nobody')").starts_with("23503"));
    // The other one's checks still wait.
    let error = set_mode(&session, Some(&[of_pid]), false).unwrap_err();
    assert!(error.contains("Key (pid)=(99999) is not present"), "{error}");
    session.ok("delete from child where pid = 99999");
    set_mode(&session, Some(&[of_pid]), false).unwrap();
    session.commit().unwrap();
}

#[test]
fn what_was_checked_before_a_rollback_is_checked_again() {
    let bench = deferred_family();
    let mut session = bench.session();
    for chosen in [None, Some(&FOREIGN_KEYS[..1])] {
        session.begin(Isolation::ReadCommitted);
        session.ok("insert into child values (1, 77, null)");
        let point = savepoint(&session);
        session.ok("delete from child");
        set_mode(&session, chosen, false).unwrap();
        assert!(session.fails("insert into child values (2, 78, null)").starts_with("23503"), "immediate");
        rollback_to(&session, &point);
        session.ok("insert into child values (2, 78, null)");
        let error = report(&session.commit().unwrap_err());
        assert!(error.contains("Key (pid)=(77) is not present"), "{error}");
    }
}

#[test]
fn deferrable_unique() {
    let bench = Bench::new(vec![
        Table::new(20000, "t", &[("a", INT4), ("b", INT4)]).primary_key(&["a"]).deferrable_unique(
            "t_b_key",
            &["b"],
            false,
        ),
    ]);
    let mut session = bench.session();
    session.ok("insert into t values (1, 1), (2, 2), (3, 3)");
    session.ok("update t set b = b + 1");
    assert_eq!(session.table("t"), ["1|2", "2|3", "3|4"]);
    assert_eq!(
        session.fails("update t set b = 3 where a = 1"),
        "23505 duplicate key value violates unique constraint \"t_b_key\" / Key (b)=(3) already exists."
    );
    session.begin(Isolation::ReadCommitted);
    session.with_context(|cx, _| cx.constraints.set_mode(cx, None, true)).unwrap();
    session.ok("update t set b = 3 where a = 1");
    session.ok("update t set b = 2 where a = 2");
    session.commit().unwrap();
    assert_eq!(session.table("t"), ["1|3", "2|2", "3|4"]);
    session.ok("delete from t");
    session.ok("insert into t select g, g from generate_series(1, 5000) g");
    assert_eq!(session.ok("update t set b = b + 1"), 5000);
    assert!(
        session
            .fails("update t set b = case when a = 5000 then a else b + 1 end")
            .contains("Key (b)=(5000) already exists")
    );
}

#[test]
fn a_parent_cannot_go_while_a_child_is_being_written() {
    let bench = family(|_| {});
    let mut first = bench.session();
    first.ok("insert into parent values (1, 'a')");
    first.begin(Isolation::ReadCommitted);
    first.ok("insert into child values (10, 1, null)");
    // Other columns of the parent may change meanwhile.
    let mut deleter = bench.session();
    let delete = thread::spawn(move || deleter.run("delete from parent where id = 1"));
    thread::sleep(Duration::from_millis(50));
    first.commit().unwrap();
    let error = delete.join().unwrap().unwrap_err();
    assert!(report(&error).contains("is still referenced"));
}

#[test]
fn an_update_of_other_columns_does_not_block_children() {
    let mut parent = Table::new(20000, "parent", &[("id", INT4), ("note", TEXT)]).primary_key(&["id"]);
    let child =
        Table::new(20100, "child", &[("pid", NUMERIC)]).references(&["pid"], &mut parent, &["id"], |_| {});
    let bench = Bench::new(vec![parent, child]);
    let mut first = bench.session();
    first.ok("insert into parent values (1, 'a')");
    first.begin(Isolation::ReadCommitted);
    first.ok("update parent set note = 'b'");
    let mut other = bench.session();
    other.lock_timeout = Duration::from_millis(50);
    other.ok("insert into child values (1.0)");
    assert!(other.fails("insert into child values (1.5)").contains("Key (pid)=(1.5) is not present"));
    first.ok("update parent set id = 1");
    other.ok("insert into child values (1)");
    first.rollback();
    first.begin(Isolation::ReadCommitted);
    assert!(first.fails("update parent set id = 2").starts_with("23503"));
    first.rollback();
}

#[test]
fn deadlocks_have_a_victim() {
    let bench = simple();
    let mut first = bench.session();
    first.ok("insert into t values (1, 'x', 5), (2, 'y', 6)");
    first.begin(Isolation::ReadCommitted);
    first.ok("update t set b = '1' where a = 1");
    let mut second = bench.session();
    second.begin(Isolation::ReadCommitted);
    second.ok("update t set b = '2' where a = 2");
    let other = thread::spawn(move || {
        let result = second.run("update t set b = '3' where a = 1");
        second.rollback();
        result
    });
    thread::sleep(Duration::from_millis(50));
    let error = first.run("update t set b = '4' where a = 2").unwrap_err();
    assert!(report(&error).starts_with("40P01 deadlock detected / Process "), "{error:?}");
    first.rollback();
    assert_eq!(other.join().unwrap().unwrap().processed, 1);
}

#[test]
fn bulk_paths_check_as_well() {
    let bench = simple();
    let mut session = bench.session();
    session.begin(Isolation::ReadCommitted);
    let relation = bench.catalog.relation_by_name(bench::PUBLIC, "t").unwrap().clone();
    let load = |session: &Session, rows: &[(i32, i32)]| {
        let rows: Vec<_> = rows
            .iter()
            .map(|(a, c)| {
                Ok(vec![
                    cairn_types::Datum::Int4(*a),
                    cairn_types::Datum::text("x"),
                    cairn_types::Datum::Int4(*c),
                ])
            })
            .collect();
        session.with_context(|cx, plan| cairn_exec::dml::bulk::insert_rows(cx, plan, &relation, rows))
    };
    assert_eq!(load(&session, &[(3, 30), (1, 10), (2, 20)]).unwrap(), 3);
    assert!(
        report(&load(&session, &[(4, 40), (4, 41)]).unwrap_err()).contains("Key (a)=(4) already exists.")
    );
    session.rollback();
}

#[test]
fn joins_subqueries_and_with() {
    let bench = simple();
    let mut session = bench.session();
    session.ok("insert into t select g, 'n' || g, g * 10 from generate_series(1, 5) g");
    session.ok("insert into plain values (1, 'one'), (1, 'uno'), (3, 'three'), (9, 'nine')");
    assert_eq!(
        session.ok("update t set b = plain.y from plain where plain.x = t.a"),
        2,
        "1 has two partners: the first counts"
    );
    assert_eq!(
        session.rows("update t set b = 'big' where c > (select avg(c) from t) returning a"),
        ["4", "5"]
    );
    assert_eq!(session.ok("delete from t using plain p where p.x = t.a and p.y = 'three'"), 1);
    assert_eq!(session.ok("delete from t where a in (select x from plain)"), 1);
    assert_eq!(
        session.rows("with gone as (delete from t where a = 2 returning *) insert into plain select a, b from gone returning x, y"),
        ["2|n2"]
    );
    assert_eq!(
        session.ok("with more as (insert into plain values (7, 'seven')) delete from t where a = 4"),
        1
    );
    assert_eq!(session.rows("select x from plain where x in (2, 7) order by x"), ["2", "7"]);
    assert_eq!(session.ok("insert into plain select x + 100, y from plain"), 6);
    assert_eq!(session.table("t"), ["5|big|50"]);
    assert_eq!(session.ok("update t set (b, c) = (select y, x from plain where x = 9)"), 1);
    assert_eq!(session.table("t"), ["5|nine|9"]);
}

#[test]
fn row_marks() {
    let bench = simple();
    let mut first = bench.session();
    first.ok("insert into t select g, 'n', g * 10 from generate_series(1, 4) g");
    first.begin(Isolation::ReadCommitted);
    assert_eq!(first.rows("select a from t order by a for update limit 1"), ["1"]);
    let mut other = bench.session();
    assert_eq!(other.rows("select a from t order by a for update skip locked limit 2"), ["2", "3"]);
    assert_eq!(other.rows("select a from t where a = 1"), ["1"], "reading waits for nobody");
    assert_eq!(
        other.fails("select a from t for no key update nowait"),
        "55P03 could not obtain lock on row in relation \"t\""
    );
    other.lock_timeout = Duration::from_millis(20);
    assert_eq!(
        other.fails("select a from t where a = 1 for key share"),
        "55P03 canceling statement due to lock timeout"
    );
    assert_eq!(
        other.fails("update t set c = 0 where a = 1"),
        "55P03 canceling statement due to lock timeout"
    );
    assert_eq!(
        other.rows(
            "delete from t where a = (select a from t order by a for update skip locked limit 1) returning a"
        ),
        ["2"]
    );
    assert_eq!(
        other.rows(
            "with c as (select a from t order by a for update skip locked limit 10)
             update t set b = 'taken' from c where t.a = c.a returning t.a"
        ),
        ["3", "4"]
    );
    first.rollback();
    other.begin(Isolation::ReadCommitted);
    other.rows("select a from t where a = 1 for share");
    first.begin(Isolation::ReadCommitted);
    assert_eq!(first.rows("select a from t where a = 1 for share"), ["1"]);
    first.rollback();
    other.rollback();
}

#[test]
fn a_locked_row_that_changed_is_looked_at_again() {
    let bench = simple();
    let mut first = bench.session();
    first.ok("insert into t values (1, 'x', 5), (2, 'y', 6), (3, 'z', 7)");
    first.begin(Isolation::ReadCommitted);
    first.ok("update t set c = c + 100 where a < 3");
    let mut other = bench.session();
    let locked = thread::spawn(move || {
        other.run("select a, c from t where c in (105, 5, 6, 7) order by a for update")
    });
    thread::sleep(Duration::from_millis(50));
    first.commit().unwrap();
    assert_eq!(locked.join().unwrap().unwrap().rows, ["1|105", "3|7"]);
}

#[test]
fn ctid_names_a_row() {
    let bench = simple();
    let mut session = bench.session();
    let inserted = session.rows("insert into plain values (1, 'a'), (2, 'b') returning ctid");
    assert_eq!(session.rows("select ctid from plain"), inserted);
    assert_eq!(session.ok(&format!("update plain set y = 'c' where ctid = '{}'", inserted[1])), 1);
    assert_eq!(session.table("plain"), ["1|a", "2|c"]);
    session.ok("insert into t values (1, 'x', 5), (2, 'y', 6)");
    let keyed = session.rows("select ctid from t where a = 2");
    assert_eq!(session.ok(&format!("delete from t where ctid = '{}'", keyed[0])), 1);
    assert_eq!(session.table("t"), ["1|x|5"]);
}

/// Random statements against a map: the table and its indexes are what the map says, whatever fails on the way.
#[test]
fn random_statements_agree_with_a_model() {
    use std::collections::BTreeMap;
    let bench = simple();
    let mut session = bench.session();
    let mut model: BTreeMap<i32, (String, Option<i32>)> = BTreeMap::new();
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = |bound: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % bound) as i32
    };
    for _ in 0..400 {
        let (a, c, other) = (next(12), next(8), next(12));
        let c_text = if c == 0 { "null".to_owned() } else { c.to_string() };
        let c_value = (c != 0).then_some(c);
        let takes = |model: &BTreeMap<i32, (String, Option<i32>)>, but: Option<i32>| {
            c_value.is_some() && model.iter().any(|(key, row)| Some(*key) != but && row.1 == c_value)
        };
        let b = format!("b{}", next(3));
        let (sql, expected) = match next(6) {
            0 | 1 => {
                let fits = !model.contains_key(&a) && !takes(&model, None);
                if fits {
                    model.insert(a, (b.clone(), c_value));
                }
                (format!("insert into t values ({a}, '{b}', {c_text})"), fits)
            }
            2 => {
                let fits = !model.contains_key(&a) || !takes(&model, Some(a));
                if let (true, Some(row)) = (fits, model.get_mut(&a)) {
                    *row = (b.clone(), c_value);
                }
                (format!("update t set b = '{b}', c = {c_text} where a = {a}"), fits)
            }
            3 => {
                let fits = !model.contains_key(&a) || a == other || !model.contains_key(&other);
                if fits && let Some(row) = model.remove(&a) {
                    model.insert(other, row);
                }
                (format!("update t set a = {other} where a = {a}"), fits)
            }
            4 => {
                model.remove(&a);
                (format!("delete from t where a = {a}"), true)
            }
            _ => {
                let there = model.contains_key(&a);
                let fits = !takes(&model, there.then_some(a));
                if fits {
                    model.insert(a, (b.clone(), c_value));
                }
                let sql = format!(
                    "insert into t values ({a}, '{b}', {c_text}) on conflict (a) do update set b = excluded.b, c = excluded.c"
                );
                (sql, fits)
            }
        };
        assert_eq!(session.run(&sql).is_ok(), expected, "{sql}: {model:?}");
        let text = |(a, (b, c)): (&i32, &(String, Option<i32>))| {
            format!("{a}|{b}|{}", c.map_or("null".to_owned(), |c| c.to_string()))
        };
        assert_eq!(session.table("t"), model.iter().map(text).collect::<Vec<_>>(), "after {sql}");
    }
}
