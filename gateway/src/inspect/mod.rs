//! What an operator looks at when something is late or refused. Nothing here changes anything.

mod store;

pub use store::{LimitUse, Receipts, Unfinished, limits, receipts, unfinished};
