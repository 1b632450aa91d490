//! The audit log: what operators did. It is only ever added to, in the transaction of the change.

mod store;

pub use store::{Row, after, list, record};
