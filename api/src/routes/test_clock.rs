//! /v1/test_clock

use std::time::Duration;

use axum::extract::State;
use common::id::AccountId;
use common::test_clocks::{self, TestClock, TestClockView};
use common::time::Timestamp;
use serde::Deserialize;
use tokio::time::{Instant, sleep};
use utoipa::ToSchema;

use crate::answer::{Answer, ok};
use crate::app::App;
use crate::body::{self, Body, required};
use crate::guard::Authenticated;
use crate::waiting::PATIENCE;

/// The pauses between two looks at a clock that is being advanced, each twice the one before.
const LOOKS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

#[derive(Deserialize, ToSchema)]
pub(crate) struct AdvanceFields {
    /// Later than the account's time, by four years (1,461 days) at most.
    to: Option<body::Instant>,
}

pub(super) async fn retrieve(State(app): State<App>, Authenticated(caller): Authenticated) -> Answer {
    let clock = test_clocks::retrieve(&app.db, caller.account_id, app.clock.now()).await?;
    Ok(ok(TestClockView::new(clock)))
}

pub(super) async fn advance(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Body { fields, .. }: Body<AdvanceFields>,
) -> Answer {
    let (account, until) = (caller.account_id, Instant::now() + PATIENCE);
    let to = required("to", fields.to)?.0;
    let mut clock = test_clocks::retrieve(&app.db, account, app.clock.now()).await?;
    if clock.target != Some(to) {
        test_clocks::check_target(to, clock.now)?;
        // Whoever remembers that the account has no clock goes by everyone's time, so for that long it must be the same.
        sleep(test_clocks::make(&app.db, account, app.keys.believed_for()).await?).await;
        clock = test_clocks::begin(&app.db, account, to, app.clock.now()).await?;
    }
    Ok(ok(TestClockView::new(reached(&app, account, to, clock, until).await)))
}

/// The clock when it has reached its target, or where it stands when patience ends. It is on its way by now, so nothing that
/// goes wrong here may become an error.
async fn reached(app: &App, account: AccountId, to: Timestamp, mut clock: TestClock, until: Instant) -> TestClock {
    let [mut pause, longest] = LOOKS;
    loop {
        match test_clocks::retrieve(&app.db, account, app.clock.now()).await {
            Ok(read) => clock = read,
            Err(error) => tracing::warn!(%error, "the clock could not be read; waiting on"),
        }
        if clock.target != Some(to) {
            // Another advance may have begun since.
            return TestClock { target: None, ..clock };
        }
        if Instant::now() >= until {
            return clock;
        }
        sleep(pause).await;
        pause = longest.min(pause * 2);
    }
}
