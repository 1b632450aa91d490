//! Stories that need another time than now, on a database of their own.

mod subscriptions;
