//! Lists. Each resource is described once, as a [`Listed`]: filters, cursors, pages, CSV and the documentation follow from
//! that.

pub(crate) mod csv;
mod request;

use std::future::Future;

use axum::extract::State;
use domain::accounts::Caller;
use foundation::error::{Error, Result};
use foundation::filter::Filters;
use foundation::id::Id;
use foundation::page::{ListView, Page, PageRequest};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use utoipa::ToSchema;

use crate::app::App;
use crate::error::{ApiResult, ok};
use crate::guard::Authenticated;
use crate::openapi::operation_doc::{OperationDoc, id};
use request::{Format, ListRequest};

/// A list of the API.
pub(crate) trait Listed: Sized + Send + Sync + 'static {
    /// The id of a row, which is its cursor.
    type Id: Id;
    /// The query parameters besides `limit` and `startingAfter`.
    type Filter: Filters;
    type Row: Send + Sync;
    /// The JSON of a row.
    type View<'a>: Serialize + ToSchema;

    const SUMMARY: &'static str;
    const DESCRIPTION: &'static str = "Newest first.";
    /// Statuses of errors.
    const ERRORS: &'static [u16] = &[422];
    /// The query parameters that must be sent.
    const REQUIRED: &'static [&'static str] = &[];

    /// Reads a page.
    fn read(
        source: &Source<'_, Self::Filter>,
        page: PageRequest<Self::Id>,
    ) -> impl Future<Output = Result<Page<Self::Row>>> + Send;

    fn id(row: &Self::Row) -> Self::Id;

    fn view(row: &Self::Row, livemode: bool) -> Self::View<'_>;

    /// The documentation of the operation, without what every list has.
    fn doc() -> OperationDoc {
        OperationDoc::new(Self::SUMMARY, Self::DESCRIPTION).errors(Self::ERRORS)
    }
}

/// The documentation of a list.
pub(crate) fn doc<L: Listed>() -> OperationDoc {
    let doc = L::doc().list_response::<L::View<'static>>(id::<L::Id>());
    L::Filter::docs().into_iter().fold(doc, |doc, filter| {
        let schema = serde_json::to_value(filter.schema).unwrap_or_default();
        doc.parameter("query", filter.name, L::REQUIRED.contains(&filter.name), filter.description, schema)
    })
}

/// What a list is read from.
pub(crate) struct Source<'a, F> {
    pub(crate) app: &'a App,
    pub(crate) caller: &'a Caller,
    pub(crate) filter: &'a F,
    /// The id in the path; empty if it has none.
    pub(crate) parent: &'a str,
}

/// The handler of a list.
pub(crate) async fn respond<L: Listed>(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    request: ListRequest<L>,
) -> ApiResult {
    let livemode = caller.livemode();
    match request.format {
        Format::Csv(units) => csv::respond(app, caller, request, units).await,
        Format::Json(page) => {
            let source = Source { app: &app, caller: &caller, filter: &request.filter, parent: &request.parent };
            let rows = L::read(&source, page).await?;
            let cursor = rows.data.last().map(|row| L::id(row).to_string()).unwrap_or_default();
            let (data, has_more) = (rows.data.iter().map(|row| render::<L>(row, livemode)), rows.has_more);
            let views = Page { data: data.collect::<Result<Vec<_>>>()?, has_more };
            Ok(ok(ListView::new(views, |_| cursor)))
        }
    }
}

fn render<L: Listed>(row: &L::Row, livemode: bool) -> Result<Box<RawValue>> {
    to_raw_value(&L::view(row, livemode)).map_err(|error| Error::internal(format!("{}: {error}", L::id(row))))
}
