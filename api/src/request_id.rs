//! The id of the request that this task handles: in the response and in each log line, here and in the worker.

use foundation::id::RequestId;

tokio::task_local! {
    pub(crate) static CURRENT: RequestId;
}

/// `None` outside of a request.
pub(crate) fn current() -> Option<RequestId> {
    CURRENT.try_with(|id| *id).ok()
}
