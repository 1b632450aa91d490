//! The test clock of a test account.

use axum::response::Html;
use domain::accounts::Mode;
use maud::html;

use super::action_form;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::time;
use crate::layout::page;
use crate::notice::Notice;
use crate::session::AccountSession;
use crate::texts::{marked, text};

pub(super) async fn show(app: &App, session: &AccountSession, notice: &Notice) -> Result<Html<String>, Failure> {
    if session.mode == Mode::Live {
        return Err(Failure::NotFound);
    }
    let clock = app.get(&session.caller, "/v1/test_clock").await?;
    let content = html! {
        h1 { (text("Test clock")) }
        (notice.outcome(&clock))
        p { (marked("The time of the test data is {time}.", &[("time", html! { strong { (time(&clock["now"])) } })])) }
        @if clock["pending"] == true { p { (text("It is being advanced.")) } }
        p { (text("All that falls due until the new time is done: invoices are created and collected, and events are sent.")) }
        section.panel { (action_form(session, ("clock", "advance"), None, &clock, notice)) }
    };
    Ok(page(session, "clock", text("Test clock"), &content))
}
