//! What browsers are given beside the pages: the card field and the scripts.

mod example;
mod field;
mod scripts;
