//! The JSON of a test clock in API responses.

use serde::Serialize;
use utoipa::ToSchema;

use super::TestClock;
use foundation::schema;
use foundation::time::Timestamp;

/// A test clock in the API.
#[derive(Serialize, ToSchema)]
#[schema(as = TestClock, description = "The clock of a test account.")]
pub struct TestClockView {
    #[schema(schema_with = schema::test_clock)]
    object: &'static str,
    /// The account's time. The clock runs, unless it is being advanced.
    now: Timestamp,
    /// True while the clock is being advanced, otherwise absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pending: bool,
}

impl TestClockView {
    pub const fn new(clock: TestClock) -> Self {
        Self { object: "test_clock", now: clock.now, pending: clock.target.is_some() }
    }
}
