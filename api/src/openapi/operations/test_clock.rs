//! The sheets of the test clock.

use common::test_clocks::TestClockView;
use serde_json::json;

use crate::openapi::sheet::Sheet;
use crate::routes::test_clock::AdvanceFields;

pub(crate) fn test_clock_retrieve() -> Sheet {
    Sheet::new(
        "Retrieve the test clock",
        "What time it is for this test account. Until the clock is advanced for the first time that is everyone's time. A \
         live account has none: 403 `permission_denied`.",
    )
    .answers::<TestClockView>(200, "The clock.")
}

pub(crate) fn test_clock_advance() -> Sheet {
    Sheet::new(
        "Advance the test clock",
        "Moves the account's time ahead, and answers when all that fell due up to `to` has been done, each at its own due \
         instant. After 25 s it answers with the clock as it stands, `pending`, and the work goes on. The same `to` again, while \
         it is being worked towards, joins; another one is 409 until then. It never moves back. \
         An operator may end an advance: it is then answered with the clock as it stands, earlier than `to`.",
    )
    .takes::<AdvanceFields>("TestClockAdvance", &["to"], json!({"to": "2026-12-21T09:30:00Z"}))
    .answers::<TestClockView>(200, "The clock, there or on its way.")
    .refuses(&[409, 422])
}
