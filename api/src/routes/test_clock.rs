//! /v1/test_clock

use std::time::Duration;

use axum::extract::State;
use domain::idempotency::WAIT;
use domain::test_clocks::{self, TestClock, TestClockView};
use foundation::id::AccountId;
use foundation::time::Timestamp;
use serde::Deserialize;
use tokio::time::{Instant, sleep};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::{self, Body, required};
use crate::error::{ApiResult, ok};
use crate::guard::Authenticated;

/// The first and the longest pause between two polls of an advancing clock; each pause is twice the previous one.
const POLL_INTERVALS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

#[derive(Deserialize, ToSchema)]
pub(crate) struct AdvanceFields {
    /// Later than the account's time, by at most four years (1,461 days).
    to: Option<body::Instant>,
}

pub(super) async fn retrieve(State(app): State<App>, Authenticated(caller): Authenticated) -> ApiResult {
    let clock = test_clocks::retrieve(&app.db, caller.account_id, app.clock.now()).await?;
    Ok(ok(TestClockView::new(clock)))
}

pub(super) async fn advance(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Body { fields, .. }: Body<AdvanceFields>,
) -> ApiResult {
    let (account, until) = (caller.account_id, Instant::now() + WAIT);
    let to = required("to", fields.to)?.0;
    let mut clock = test_clocks::retrieve(&app.db, account, app.clock.now()).await?;
    if clock.target != Some(to) {
        test_clocks::check_target(to, clock.now)?;
        // Processes may have cached that the account has no clock and still use the system time. Until those entries
        // expire, both times must be equal.
        sleep(test_clocks::create(&app.db, account, app.keys.cache_ttl()).await?).await;
        clock = test_clocks::begin(&app.db, account, to, app.clock.now()).await?;
    }
    Ok(ok(TestClockView::new(wait_for_target(&app, account, to, clock, until).await)))
}

/// Waits until the clock reaches its target; returns its state, also at the timeout. The advance is already committed,
/// so a failed read is logged and never becomes an error response.
async fn wait_for_target(
    app: &App,
    account: AccountId,
    to: Timestamp,
    mut clock: TestClock,
    until: Instant,
) -> TestClock {
    let [mut pause, longest] = POLL_INTERVALS;
    loop {
        match test_clocks::retrieve(&app.db, account, app.clock.now()).await {
            Ok(read) => clock = read,
            Err(error) => tracing::warn!(%error, "the clock could not be read; retrying"),
        }
        if clock.target != Some(to) {
            // Another advance may have started since.
            return TestClock { target: None, ..clock };
        }
        if Instant::now() >= until {
            return clock;
        }
        sleep(pause).await;
        pause = longest.min(pause * 2);
    }
}
