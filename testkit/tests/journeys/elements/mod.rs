//! What browsers load besides the payment pages: the card field and the scripts.

mod example;
mod field;
mod scripts;
