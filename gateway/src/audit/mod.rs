//! The audit log of operators' actions. It is append-only; each record is written in the transaction of the change.

mod store;

pub use store::{AuditRecord, after, list, record};
