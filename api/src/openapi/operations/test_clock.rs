//! The test clock.

use domain::test_clocks::TestClockView;
use serde_json::json;

use crate::openapi::operation_doc::OperationDoc;
use crate::routes::test_clock::AdvanceFields;

pub(crate) fn test_clock_retrieve() -> OperationDoc {
    OperationDoc::new(
        "Retrieve the test clock",
        "The current time of this test account. Until the clock is first advanced, that is the system time. A live \
         account has no test clock, so the request returns 403 `permission_denied`.",
    )
    .response::<TestClockView>(200, "The test clock.")
}

pub(crate) fn test_clock_advance() -> OperationDoc {
    OperationDoc::new(
        "Advance the test clock",
        "Moves the account's time forward and responds when everything due up to `to` has been done, each at its own \
         due time. After 25 s it responds with the current clock, `pending`, and the advance continues. Repeating the \
         request with the same `to` waits for the same advance; another `to` returns 409 until it ends. The clock \
         never moves back. An operator can end an advance: the response then has a time before `to`.",
    )
    .request_body::<AdvanceFields>("TestClockAdvance", &["to"], json!({"to": "2026-12-21T09:30:00Z"}))
    .response::<TestClockView>(200, "The test clock, at `to` or still advancing.")
    .errors(&[409, 422])
}
