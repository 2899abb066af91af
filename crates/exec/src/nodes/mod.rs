//! The executor's nodes, one a file: what to do ([`Operator`](crate::Operator)) and the running state ([`Node`](crate::Node)).
