//! Whoever locks several rows does so in the order of their ids, and tables in one order: no two commands wait for each other.

mod again;
mod pairs;
mod world;
