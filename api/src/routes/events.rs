//! /v1/events

use std::time::Duration;

use axum::extract::State;
use domain::events::{self, EventView, Filter, Following};
use foundation::error::{Error, Result};
use foundation::id::EventId;
use foundation::page::{Page, PageRequest};
use tokio::time::{Instant, sleep_until};

use crate::app::App;
use crate::error::{ApiResult, ok};
use crate::guard::Authenticated;
use crate::listing::Source;
use crate::path::Path;

/// How often a request that waits looks for an event.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    Ok(ok(events::retrieve(&app.db, caller.account_id, EventId::from_request(&id)?).await?))
}

/// Reads a page of the newest events, or of those after one.
pub(super) async fn list(source: &Source<'_, Filter>, page: PageRequest<EventId>) -> Result<Page<EventView>> {
    let Source { app, caller, filter, .. } = source;
    let Some(after) = &filter.after else {
        if filter.wait.is_some() {
            return Err(Error::invalid("wait", "wait must not be sent without after"));
        }
        return events::list(&app.db, caller.account_id, caller.time.has_clock(), filter, page).await;
    };
    if page.starting_after.is_some() {
        return Err(Error::invalid("after", "after must not be sent with startingAfter"));
    }
    if page.is_chunk() {
        return Err(Error::invalid("after", "after must not be sent with Accept: text/csv"));
    }
    let following = Following::after(&app.db, caller.account_id, after).await?;
    let end = Instant::now() + Duration::from_secs(filter.wait.map_or(0, |wait| wait.0));
    loop {
        let found = following.read(&app.db, filter, page).await?;
        let now = Instant::now();
        if !found.data.is_empty() || now >= end {
            return Ok(found);
        }
        sleep_until(end.min(now + POLL_INTERVAL)).await;
    }
}
