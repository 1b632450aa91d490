//! /v1/disputes

use axum::extract::State;
use domain::disputes::{self, DisputeView};
use foundation::id::DisputeId;

use crate::app::App;
use crate::error::{ApiResult, ok};
use crate::guard::Authenticated;
use crate::path::Path;

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let dispute = disputes::retrieve(&app.db, caller.account_id, DisputeId::from_request(&id)?).await?;
    Ok(ok(DisputeView::new(&dispute, caller.livemode())))
}
