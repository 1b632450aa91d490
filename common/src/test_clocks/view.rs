//! A test clock as the API answers it.

use serde::Serialize;
use utoipa::ToSchema;

use super::TestClock;
use crate::schema;
use crate::time::Timestamp;

/// The public JSON of a test clock.
#[derive(Serialize, ToSchema)]
#[schema(as = TestClock, description = "What time it is for a test account.")]
pub struct TestClockView {
    #[schema(schema_with = schema::test_clock)]
    object: &'static str,
    /// The account's time. It ticks on, unless it is being advanced.
    now: Timestamp,
    /// There, and true, while it is being advanced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pending: bool,
}

impl TestClockView {
    /// Renders a clock.
    pub const fn new(clock: TestClock) -> Self {
        Self { object: "test_clock", now: clock.now, pending: clock.target.is_some() }
    }
}
