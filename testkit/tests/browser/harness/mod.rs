//! The browser itself: that it does what a person does, and sees what it must not miss.

mod acting;
mod ending;
mod judging;
