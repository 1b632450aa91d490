//! Payments: create, retrieve, list, and everything that is refused on the way.

mod counted;
mod envelope;
mod fields;
mod heads;
mod lists;
mod outcomes;
mod slow;
