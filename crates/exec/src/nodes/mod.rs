//! The executor's nodes: what to do ([`Operator`](crate::Operator)) and the running state ([`Node`](crate::Node)).

pub mod aggregate;
pub mod append;
pub mod cte;
pub mod distinct;
pub mod join;
pub mod limit;
pub mod project_set;
pub mod simple_scans;
pub mod sort;
pub mod system_scan;
pub mod table_scan;
pub mod window;
