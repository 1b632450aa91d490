//! Commands lock rows in the order of their ids and tables in one fixed order, so they never deadlock.

mod fixtures;
mod pairs;
mod retries;
