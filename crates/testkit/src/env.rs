//! Parts of `cairn_types::Env` for tests of the crates below the session.
//!
//! They are macros, to be called in an `impl Env`, so that this crate needs none of those that it helps to test, and each
//! test writes down only what it is about. The caller's crate depends on `cairn_types`.

/// A session in which nothing is set and nothing happens; `$database` is where it is, `$time` its `now()` (microseconds
/// since 2000).
#[macro_export]
macro_rules! env_of_an_idle_session {
    (database: $database:expr, time: $time:expr) => {
        fn setting(&self, _: &str) -> Option<String> {
            None
        }
        fn set_setting(&self, _: &str, _: &str, _: bool) -> ::cairn_types::Result<()> {
            Ok(())
        }
        fn transaction_time(&self) -> i64 {
            $time
        }
        fn statement_time(&self) -> i64 {
            0
        }
        fn clock_time(&self) -> i64 {
            0
        }
        fn check_interrupts(&self) -> ::cairn_types::Result<()> {
            Ok(())
        }
        fn sleep(&self, _: f64) -> ::cairn_types::Result<()> {
            Ok(())
        }
        fn random(&self) -> f64 {
            0.5
        }
        fn set_seed(&self, _: f64) {}
        fn notice(&self, _: ::cairn_types::Error) {}
        fn current_user(&self) -> ::cairn_types::Text {
            "postgres".into()
        }
        fn session_user(&self) -> ::cairn_types::Text {
            "postgres".into()
        }
        fn current_database(&self) -> ::cairn_types::Text {
            $database.into()
        }
        fn backend_pid(&self) -> i32 {
            1
        }
    };
}

/// No enums, no names behind the reg* types, no functions that need a catalog: internal errors that say "not here".
#[macro_export]
macro_rules! env_without_objects {
    () => {
        fn enum_label(&self, _: ::cairn_types::Oid) -> Option<::cairn_types::Text> {
            None
        }
        fn enum_value(&self, _: ::cairn_types::Oid, _: &str) -> Option<::cairn_types::EnumValue> {
            None
        }
        fn reg_name(&self, _: ::cairn_types::Oid, _: ::cairn_types::Oid) -> Option<String> {
            None
        }
        fn reg_lookup(&self, _: ::cairn_types::Oid, name: &str) -> ::cairn_types::Result<::cairn_types::Oid> {
            Err(::cairn_types::Error::internal("not here"))
        }
        fn system_function(
            &self,
            _: &str,
            _: &[::cairn_types::Datum],
            _: &::cairn_types::CallInfo<'_>,
        ) -> ::cairn_types::Result<::cairn_types::Datum> {
            Err(::cairn_types::Error::internal("not here"))
        }
    };
}
